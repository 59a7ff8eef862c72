"""Events that JAX reports to listeners: occurrences, durations and values.

Listeners are called in the order of registration, with the name of the event and its metadata as
keyword arguments.
"""

from __future__ import annotations

from typing import Protocol


class EventListenerWithMetadata(Protocol):
    def __call__(self, event: str, /, **kwargs: str | int) -> None: ...


class EventDurationListenerWithMetadata(Protocol):
    def __call__(self, event: str, duration_secs: float, /, **kwargs: str | int) -> None: ...


class EventTimeSpanListenerWithMetadata(Protocol):
    def __call__(
        self, event: str, start_time: float, end_time: float, /, **kwargs: str | int
    ) -> None: ...


class ScalarListenerWithMetadata(Protocol):
    def __call__(self, event: str, value: float | int, /, **kwargs: str | int) -> None: ...


_event_listeners: list[EventListenerWithMetadata] = []
_event_duration_secs_listeners: list[EventDurationListenerWithMetadata] = []
_event_time_span_listeners: list[EventTimeSpanListenerWithMetadata] = []
_scalar_listeners: list[ScalarListenerWithMetadata] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Reports that `event` happened.

    Args:
      event: the name of the event, by convention a path such as '/jax/compilation_cache/hits'.
      kwargs: metadata, passed to the listeners.

    Example:
      >>> import jax
      >>> seen = []
      >>> def listen(event, **kwargs):
      ...   seen.append((event, kwargs))
      >>> jax.monitoring.register_event_listener(listen)
      >>> jax.monitoring.record_event("/my/event", size=3)
      >>> jax.monitoring.unregister_event_listener(listen)
      >>> seen
      [('/my/event', {'size': 3})]
    """
    for callback in _event_listeners:
        callback(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Reports that `event` took `duration` seconds; see `record_event`."""
    for callback in _event_duration_secs_listeners:
        callback(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Reports that `event` lasted from `start_time` to `end_time`, in seconds of `time.time()`."""
    for callback in _event_time_span_listeners:
        callback(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Reports a `value` for `event`; see `record_event`."""
    for callback in _scalar_listeners:
        callback(event, value, **kwargs)


def register_event_listener(callback: EventListenerWithMetadata) -> None:
    """Registers `callback(event, **kwargs)` to be called for each event."""
    _event_listeners.append(callback)


def register_event_duration_secs_listener(callback: EventDurationListenerWithMetadata) -> None:
    """Registers `callback(event, duration, **kwargs)` to be called for each duration."""
    _event_duration_secs_listeners.append(callback)


def register_event_time_span_listener(callback: EventTimeSpanListenerWithMetadata) -> None:
    """Registers `callback(event, start_time, end_time, **kwargs)` for each time span."""
    _event_time_span_listeners.append(callback)


def register_scalar_listener(callback: ScalarListenerWithMetadata) -> None:
    """Registers `callback(event, value, **kwargs)` to be called for each scalar."""
    _scalar_listeners.append(callback)


def unregister_event_listener(callback: EventListenerWithMetadata) -> None:
    """Reverts `register_event_listener`; ValueError if `callback` is not registered."""
    _remove(_event_listeners, callback)


def unregister_event_duration_listener(callback: EventDurationListenerWithMetadata) -> None:
    """Reverts `register_event_duration_secs_listener`; ValueError if it is not registered."""
    _remove(_event_duration_secs_listeners, callback)


def unregister_event_time_span_listener(callback: EventTimeSpanListenerWithMetadata) -> None:
    """Reverts `register_event_time_span_listener`; ValueError if it is not registered."""
    _remove(_event_time_span_listeners, callback)


def unregister_scalar_listener(callback: ScalarListenerWithMetadata) -> None:
    """Reverts `register_scalar_listener`; ValueError if it is not registered."""
    _remove(_scalar_listeners, callback)


def get_event_listeners() -> list[EventListenerWithMetadata]:
    """The listeners that `register_event_listener` registered, in this order."""
    return list(_event_listeners)


def get_event_duration_listeners() -> list[EventDurationListenerWithMetadata]:
    """The listeners that `register_event_duration_secs_listener` registered, in this order."""
    return list(_event_duration_secs_listeners)


def get_event_time_span_listeners() -> list[EventTimeSpanListenerWithMetadata]:
    """The listeners that `register_event_time_span_listener` registered, in this order."""
    return list(_event_time_span_listeners)


def get_scalar_listeners() -> list[ScalarListenerWithMetadata]:
    """The listeners that `register_scalar_listener` registered, in this order."""
    return list(_scalar_listeners)


def _remove(listeners: list, callback: object) -> None:
    if callback not in listeners:
        raise ValueError(f"{callback!r} is not registered as a listener of this kind")
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Unregisters all listeners of all kinds."""
    for listeners in (
        _event_listeners,
        _event_duration_secs_listeners,
        _event_time_span_listeners,
        _scalar_listeners,
    ):
        listeners.clear()
