"""Checkpoints that are written in the background while the program goes on."""

from __future__ import annotations

import abc
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import tree_util, util
from jax._src.array_serialization import arrays, specs
from jax._src.array_serialization.processes import Agreement
from jax._src.array_serialization.ts import fresh_context

logger = logging.getLogger("jax.experimental.array_serialization.serialization")


class GlobalAsyncCheckpointManagerBase(util.StrictABC):
    """The interface of managers that write checkpoints in the background.

    Example:
      A training loop with checkpoints::

          manager = GlobalAsyncCheckpointManager()
          state = manager.deserialize_with_paths(shardings, paths)
          for step in range(steps):
            if step % 100 == 0:
              # Returns when the arrays may be changed; waits for the previous checkpoint.
              manager.serialize_with_paths(state, temporary_paths, on_commit_callback=rename)
            state = train_step(state)
            manager.check_for_errors()  # does not wait
          manager.wait_until_finished()
    """

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises the error of the checkpoint in the background, if there is one."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Waits until the checkpoint in the background is written; raises its error."""

    @abc.abstractmethod
    def serialize(
        self,
        arrays: Any,
        tensorstore_specs: Any,
        *,
        on_commit_callback: Callable[[], None],
    ) -> None:
        """Writes arrays."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Reads arrays."""


class AsyncManager:
    """Waits for the end of writes in a thread, together with the other processes.

    Args:
      timeout_secs: how long a process waits for the others after it has finished.

    Raises:
      ValueError: there are several processes, but `jax.distributed.initialize` was not called.
    """

    def __init__(self, timeout_secs: float = 300):
        self._timeout_secs = timeout_secs
        self._commit_futures: list[Any] | None = None
        self._thread: threading.Thread | None = None
        self._exception: BaseException | None = None
        self._agreement = Agreement("manager", timeout_secs)

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_alive():
            logger.warning(
                "a checkpoint is still being written: call `wait_until_finished` before the program"
                " ends"
            )

    def _add_futures(self, futures: Sequence[Any]) -> None:
        self._commit_futures = list(futures)

    def _start_async_commit(self, on_commit_callback: Callable[[], None] | None) -> None:
        self._on_commit_callback = on_commit_callback
        # Not a daemon: a program that ends waits until its checkpoint is written.
        self._thread = threading.Thread(target=self._thread_func, name="jax_checkpoint")
        self._thread.start()

    def _thread_func(self) -> None:
        try:
            self._agreement.run(self._wait_for_writes, "writing a checkpoint")
            if self._on_commit_callback is not None:
                self._agreement.run_in_first(self._on_commit_callback, "on_commit_callback")
        except BaseException as err:
            self._exception = err

    def _wait_for_writes(self) -> None:
        """Raises the first error at the end: then nothing is being written any more."""
        errors = []
        for future in self._commit_futures or ():
            try:
                future.result()
            except Exception as err:
                errors.append(err)
        if errors:
            raise errors[0]

    def check_for_errors(self) -> None:
        """Raises the error of the checkpoint in the background, if there is one.

        Raises:
          BarrierTimeoutError: a process did not finish in time.
          Exception: an error of tensorstore, or of the callback.
        """
        if self._exception is not None:
            error, self._exception = self._exception, None
            raise error

    def wait_until_finished(self) -> None:
        """Waits until the checkpoint in the background is written; raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = self._commit_futures = None
        self.check_for_errors()


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes sharded arrays in the background, and reads them.

    A checkpoint is complete when `on_commit_callback` is called: write to a temporary folder, and
    let the callback rename it.

    Example:
      >>> import os, tempfile
      >>> from jax.experimental.array_serialization.serialization import (
      ...     GlobalAsyncCheckpointManager)
      >>> manager = GlobalAsyncCheckpointManager()
      >>> with tempfile.TemporaryDirectory() as folder:
      ...   manager.serialize_with_paths(
      ...       [jnp.arange(3)], [folder + '/writing/x'],
      ...       on_commit_callback=lambda: os.rename(folder + '/writing', folder + '/step_1'))
      ...   manager.wait_until_finished()
      ...   manager.deserialize_with_paths([jnp.arange(3).sharding], [folder + '/step_1/x'])
      [Array([0, 1, 2], dtype=int32)]
    """

    def serialize(
        self,
        arrays: Any,
        tensorstore_specs: Any,
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Writes arrays in the background.

        Waits for the previous checkpoint first. When it returns, the arrays may be deleted or
        donated.

        Args:
          arrays: a pytree of arrays, such as a list.
          tensorstore_specs: the specs, in the same structure; see `get_tensorstore_spec`.
          on_commit_callback: called in process 0 when all processes have written everything.
          transaction: a tensorstore transaction, which the caller commits.
        """
        self.wait_until_finished()
        futures = _start_writes(arrays, tensorstore_specs, transaction)
        self._add_futures(futures)
        self._start_async_commit(on_commit_callback)

    def serialize_with_paths(
        self,
        arrays: Sequence[Any],
        paths: Sequence[str],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Writes arrays in the background, each to a folder of its own."""
        self.serialize(
            arrays,
            _specs_of_paths(paths),
            on_commit_callback=on_commit_callback,
            transaction=transaction,
        )

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> Any:
        """Reads arrays, after the checkpoint in the background is written.

        See `run_deserialization` for the arguments.
        """
        self.wait_until_finished()
        return arrays.run_deserialization(
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb
        )

    def deserialize_with_paths(
        self,
        shardings: Sequence[Any],
        paths: Sequence[str],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> Any:
        """Reads arrays that `serialize_with_paths` has written."""
        return self.deserialize(
            shardings, _specs_of_paths(paths), global_shapes, dtypes, concurrent_gb
        )


def _specs_of_paths(paths: Any) -> Any:
    return tree_util.tree_map(
        lambda path: specs.get_tensorstore_spec(path, ocdbt=False, driver="zarr"), paths
    )


def _start_writes(values: Any, tensorstore_specs: Any, transaction: Any) -> list[Any]:
    """Starts writing; returns when the arrays may change, with the futures of the writes."""
    leaves, tree = tree_util.tree_flatten(values)
    leaf_specs = arrays.leaves_like(tree, tensorstore_specs, "tensorstore_specs")
    futures: list[list[Any]] = [[] for _ in leaves]
    context = fresh_context()

    arrays.run(
        arrays.gather(
            arrays.async_serialize(leaf, spec, commits, context, transaction=transaction)
            for leaf, spec, commits in zip(leaves, leaf_specs, futures)
        )
    )
    return [future for leaf in futures for future in leaf]
