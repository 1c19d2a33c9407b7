"""The functions of the kernel language, by family; `refcompiler.language` shows them as one namespace."""
