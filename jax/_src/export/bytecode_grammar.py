"""What attributes, types and operations of portable modules consist of, for the check of their bytes."""

from __future__ import annotations

# What an attribute or type consists of, by its number in its dialect: a letter for each field, such as
# "t" + "f" for a type and a number of that type. The numbers are those that the dialects' writers give.
#   s           a text
#   n, z        a number, a number with a sign
#   p           a number or none
#   y           a byte
#   b           bytes
#   t           a type
#   i, f        an integer or a floating-point number of the type before
#   :           a range of lines and columns
#   a           an attribute of any kind
#   o           a part of an axis or none
# The other letters are attributes of one kind, by KINDS below. After a letter, + means a list of such
# fields, and * a list of pairs of such a field and an attribute of any kind.
ATTRIBUTES: dict[str, dict[int, str]] = {
    "builtin": {
        # lists, dictionaries, strings, symbols, nested symbols, types, units, integers, floats
        0: "a+", 1: "k*", 2: "s", 4: "k", 5: "ka+", 6: "t", 7: "", 8: "ti", 9: "tf",
        # locations: call sites, lines, fused, fused with an attribute, names, unknown, ranges of lines
        10: "ll", 11: "knn", 12: "l+", 13: "l+a", 14: "kl", 15: "", 22: "k:",
    },
    "vhlo": {
        # lists, booleans, directions and types of comparisons, versions of custom calls, dictionaries
        1: "a+", 2: "n", 3: "n", 4: "n", 5: "n", 6: "S*",
        # kinds of Fourier transforms, floats, integers, aliases of outputs, precisions
        7: "n", 8: "tf", 9: "ti", 10: "z+zz+", 11: "n",
        # algorithms and distributions of random numbers, strings, constants, transposes, types
        12: "n", 13: "n", 14: "s", 15: "tb", 16: "n", 17: "t",
        # bounds of dimensions, modes of accuracy, accuracies
        18: "z+", 19: "n", 20: "zzza",
    },
    "sdy": {
        # manual axes, axes of meshes, meshes, parts of axes, references to axes
        0: "k+", 1: "sn", 2: "X+z+", 3: "zz", 4: "so",
        # shardings of dimensions, of tensors (15: with unreduced axes), of several values
        5: "A+yp", 6: "MQ+A+", 15: "MQ+A+A+", 7: "r+",
        # factors of dimensions, of tensors; rules of operations
        8: "z+", 9: "U+", 10: "z+W+W+z+z+z+z+y",
    },
}  # fmt: skip
TYPES: dict[str, dict[int, str]] = {
    "builtin": {
        # index, floats, none; integers, functions, complex numbers
        **dict.fromkeys((1, 3, 4, 5, 6, 12), ""), 0: "n", 2: "t+t+", 9: "t",
        # tensors, those with an encoding, tuples
        13: "z+t", 14: "az+t", 15: "t+",
    },
    "vhlo": {
        # scalars, tokens, witnesses, none
        **dict.fromkeys((0, *range(2, 8), *range(9, 20), 22, 26, *range(27, 30), *range(31, 41)), ""),
        # complex numbers, functions, tensors, those with bounds, tuples
        1: "t", 8: "t+t+", 20: "z+t", 21: "xz+t", 23: "t+",
        # unranked tensors, buffers, futures
        25: "t", 41: "z+t", 42: "t+",
    },
    "sdy": {},
}  # fmt: skip

Tag = tuple[str, int]  # a dialect, and the number of an attribute or type in it

# Letters that stand for attributes of one kind, or of one of two: in the tables above, in the properties
# of operations below, and in what is read of operations.
KINDS: dict[str, set[Tag]] = {
    "d": {("builtin", 1)},  # dictionaries
    "k": {("builtin", 2)},  # strings
    "G": {("builtin", 8)},  # integers
    "l": {("builtin", n) for n in (10, 11, 12, 13, 14, 15, 22)},  # locations
    "L": {("vhlo", 1)},  # lists
    "B": {("vhlo", 2)},  # booleans
    "D": {("vhlo", 6)},  # dictionaries
    "F": {("vhlo", 8)},  # floats
    "I": {("vhlo", 9)},  # integers
    "N": {("vhlo", 15)},  # constants
    "S": {("vhlo", 14)},  # strings
    "T": {("vhlo", 14)},  # names: strings that are UTF-8, as Python reads them
    "Y": {("vhlo", 17)},  # types
    "C": {("vhlo", 14), ("vhlo", 6)},  # strings or dictionaries
    "E": {("vhlo", 17), ("vhlo", 2)},  # types or booleans
    "J": {("vhlo", 17), ("vhlo", 9)},  # types or integers
    "3": {("vhlo", 3)},  # directions of comparisons
    "4": {("vhlo", 4)},  # types of comparisons
    "5": {("vhlo", 5)},  # versions of custom calls
    "7": {("vhlo", 7)},  # kinds of Fourier transforms
    "O": {("vhlo", 10)},  # aliases of outputs
    "P": {("vhlo", 11)},  # precisions
    "g": {("vhlo", 12)},  # algorithms of random numbers
    "h": {("vhlo", 13)},  # distributions of random numbers
    "6": {("vhlo", 16)},  # transposes
    "x": {("vhlo", 18)},  # bounds of dimensions
    "u": {("vhlo", 20)},  # accuracies
    "e": {("sdy", 0)},  # manual axes
    "X": {("sdy", 1)},  # axes of meshes
    "M": {("sdy", 2), ("builtin", 4)},  # meshes, or symbols of them
    "m": {("sdy", 2)},  # meshes
    "q": {("sdy", 3)},  # parts of axes
    "A": {("sdy", 4)},  # references to axes
    "Q": {("sdy", 5)},  # shardings of dimensions
    "r": {("sdy", 6), ("sdy", 15)},  # shardings of tensors
    "w": {("sdy", 7)},  # shardings of several values
    "U": {("sdy", 8)},  # factors of dimensions
    "W": {("sdy", 9)},  # factors of tensors
}
# The properties of operations of vhlo, in the order of their names: letters of kinds, and ? for a string or
# none. Operations without any are listed last.
PROPERTIES_OF = {
    "all_gather_v1": "IINB", "all_gather_v2": "IINB", "all_reduce_v1": "INB", "all_reduce_v2": "INB",
    "all_to_all_v1": "IINII", "all_to_all_v2": "IINII", "batch_norm_grad_v1": "FI",
    "batch_norm_inference_v1": "FI", "batch_norm_training_v1": "FI", "broadcast_in_dim_v1": "N",
    "broadcast_v1": "N", "call_v1": "T", "cbrt_v2": "u", "cholesky_v1": "B", "collective_broadcast_v1": "IN",
    "collective_permute_v1": "IN", "compare_v1": "43", "composite_v1": "DTTI", "composite_v2": "DTTI",
    "concatenate_v1": "I", "constant_v1": "N", "convolution_v1": "IIIINIINNIINNP+NNN", "cosine_v2": "u",
    "cross-replica-sum_v1": "N", "custom_call_v1": "5CTT+BN+O+N+", "custom_call_v2": "5CTT+BN+O+N+L+",
    "dot_general_v1": "NNP+NN",
    "dot_general_v2": "YENJNYJP+NJNY", "dot_v1": "P+", "dynamic_broadcast_in_dim_v1": "NNN",
    "dynamic_conv_v1": "IIIINIINNIINNP+NNN", "dynamic_conv_v2": "IIIINIINNIINP+NNN",
    "dynamic_gather_v1": "NIBNN", "dynamic_gather_v2": "NIBNNNN", "dynamic_iota_v1": "I",
    "dynamic_slice_v1": "N", "einsum_v1": "S", "exponential_minus_one_v2": "u", "exponential_v2": "u",
    "fft_v1": "N7", "func_v1": "D+YD+TS", "gather_v1": "NIBNNN", "gather_v2": "NIBNNNNN",
    "get_dimension_size_v1": "I", "get_tuple_element_v1": "I", "infeed_v1": "SL+", "iota_v1": "I",
    "log_plus_one_v2": "u", "log_v2": "u", "logistic_v2": "u", "map_v1": "N", "outfeed_v1": "S", "pad_v1": "NNN",
    "recv_v1": "IIB", "recv_v2": "IIBN", "reduce_precision_v1": "II", "reduce_scatter_v1": "INIB",
    "reduce_v1": "N", "reduce_window_v1": "NNNNN", "reverse_v1": "N", "rng_bit_generator_v1": "g", "rng_v1": "h",
    "rsqrt_v2": "u", "scatter_v1": "IBNNBN", "scatter_v2": "IBNNNNBN", "select_and_scatter_v1": "NNN",
    "send_v1": "IIB", "send_v2": "IIBN", "set_dimension_size_v1": "I", "sine_v2": "u", "slice_v1": "NNN",
    "sort_v1": "IB", "sqrt_v2": "u", "tan_v2": "u", "tanh_v2": "u", "torch_index_select_v1": "II",
    "transpose_v1": "N", "triangular_solve_v1": "BB6B", "unary_einsum_v1": "S",
    **{f"{name}_v1": "" for name in (
        "abs add after_all and atan2 bitcast_convert case cbrt ceil clamp complex convert cosine"
        " count_leading_zeros create_token divide dynamic_pad dynamic_reshape dynamic_update_slice exponential"
        " exponential_minus_one floor if imag is_finite log log_plus_one logistic maximum minimum multiply negate"
        " not optimization_barrier or partition_id popcnt power real real_dynamic_slice remainder replica_id"
        " reshape return round_nearest_afz round_nearest_even rsqrt select shift_left shift_right_arithmetic"
        " shift_right_logical sign sine sqrt subtract tan tanh tuple while xor"
    ).split()},
}  # fmt: skip
PROPERTIES_OF = {
    **{f"vhlo.{name}": letters for name, letters in PROPERTIES_OF.items()},
    "builtin.module": "??",
    "builtin.unrealized_conversion_cast": "",
    "sdy.manual_computation": "wew",
    "sdy.mesh": "mk",
    "sdy.return": "",
    "sdy.sharding_constraint": "r",
    "sdy.sharding_group": "G",
}
VALUES = {
    *[("vhlo", n) for n in (20, 21, 22, 23, 25, 42)], *[("builtin", n) for n in (13, 14)]
}  # fmt: skip
TENSORS = {("vhlo", 20), ("vhlo", 21), ("builtin", 13), ("builtin", 14)}
DYNAMIC = -(2**63)  # the size of a dimension

# Bits of scalars, by the number of their type
FLOATS = {
    "vhlo": {
        2: 16, 3: 16, 4: 32, 5: 64, 6: 8, 7: 8, 27: 8, 28: 8, 29: 8, 34: 19, 35: 8, 36: 8, 37: 4, 38: 6, 39: 6,
        40: 8,
    },
    "builtin": {3: 16, 4: 16, 5: 32, 6: 64},
}  # fmt: skip
INTEGERS = {
    "vhlo": {
        0: 1, 9: 64, 10: 4, 11: 8, 12: 16, 13: 32, 14: 64, 15: 4, 16: 8, 17: 16, 18: 32, 19: 64, 31: 2, 32: 2,
    },
    "builtin": {1: 64},
}  # fmt: skip
