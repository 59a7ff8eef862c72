"""Reading of profiles, as jaxlib has it.

Some of its types are made when they are first needed. Making them warns in Python 3.12 and newer, and where warnings are
errors that ends the process. So all of them are made here, by reading a profile with one of each.
"""

import warnings

from jaxlib._profile_data import (
    ProfileData as ProfileData,
    ProfileEvent as ProfileEvent,
    ProfilePlane as ProfilePlane,
)

_ONE_OF_EACH = """planes {
  stat_metadata { key: 1 value { id: 1 } } event_metadata { key: 1 value { id: 1 } } stats { metadata_id: 1 int64_value: 1 }
  lines { events { metadata_id: 1 stats { metadata_id: 1 int64_value: 1 } } }
}"""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    _data = ProfileData.from_text_proto(_ONE_OF_EACH)
    _kept = [type(iter(_data.planes))]  # a type that is freed would be made again
    for _plane in _data.planes:
        _kept += [type(iter(_plane.lines)), type(iter(_plane.stats))]
        for _line in _plane.lines:
            _kept += [type(iter(_line.events))]
            _kept += [type(iter(_event.stats)) for _event in _line.events]
