"""`checkpoint` (rematerialization): recompute values in the backward pass, do not store them."""

from jax._src.ad_checkpoint.names import (
    checkpoint_name as checkpoint_name,
    name_p as name_p,
)
from jax._src.ad_checkpoint.policies import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    RecomputeType as RecomputeType,
    Saveable as Saveable,
    SaveableType as SaveableType,
    checkpoint_policies as checkpoint_policies,
    dots_saveable as dots_saveable,
    dots_with_no_batch_dims_saveable as dots_with_no_batch_dims_saveable,
    everything_saveable as everything_saveable,
    nothing_saveable as nothing_saveable,
    offload_dot_with_no_batch_dims as offload_dot_with_no_batch_dims,
    save_and_offload_only_these_names as save_and_offload_only_these_names,
    save_any_names_but_these as save_any_names_but_these,
    save_anything_except_these_names as save_anything_except_these_names,
    save_from_both_policies as save_from_both_policies,
    save_only_these_names as save_only_these_names,
)
from jax._src.ad_checkpoint.primitive import (
    checkpoint as checkpoint,
    remat as remat,
    remat_p as remat_p,
)
from jax._src.ad_checkpoint.residuals import (
    print_saved_residuals as print_saved_residuals,
    saved_residuals as saved_residuals,
)
