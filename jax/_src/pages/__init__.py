"""HTML pages of tools: one file without references to others, which also notebooks show."""

from jax._src.compile_summary import duration as duration
from jax._src.pages.page import (
    Html as Html,
    Page as Page,
    details as details,
    element as element,
    join as join,
    table as table,
)
from jax._src.pages.units import (
    bytes_text as bytes_text,
    number_text as number_text,
)
