"""The C++ type of a register of each dtype."""

C_TYPES = {
    "bool": "bool",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned",
    "u64": "unsigned long long",
    "f8e4m3": "unsigned char",
    "f8e5m2": "unsigned char",
    "f16": "unsigned short",
    "bf16": "unsigned short",
    "f32": "float",
    "f64": "double",
    "mbarrier": "unsigned long long",
}
