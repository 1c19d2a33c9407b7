"""What serves launches beside the language, under the names of `triton.tools`."""
