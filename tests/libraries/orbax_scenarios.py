"""Checkpoints of orbax, also restored on another mesh."""

import tempfile
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 8)
CASES = Programs()
scenario = CASES.define


def mesh_of(*sizes):
    devices = np.array(jax.devices()[: np.prod(sizes)])
    return Mesh(devices.reshape(sizes), ("x", "y")[: len(sizes)])


@scenario
def orbax_checkpoint_on_another_mesh():
    before, after = mesh_of(2, 4), mesh_of(4)
    x = jnp.arange(32.0).reshape(8, 4)
    state = {
        "w": jax.device_put(x, NamedSharding(before, P("x", "y"))),
        "b": jax.device_put(x[0], NamedSharding(before, P())),
        "step": 3,
    }
    placed = NamedSharding(after, P("x"))
    wanted = {
        "w": jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=placed),
        "b": jax.ShapeDtypeStruct((4,), jnp.float32, sharding=placed),
        "step": 0,
    }
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        path = Path(folder, "state")
        checkpointer.save(path, state)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(path, wanted)
    shards = [str(s.data.shape) for s in restored["w"].addressable_shards]
    return restored, str(restored["w"].sharding.spec), shards


@scenario
def orbax_manager_keeps_the_latest():
    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        with ocp.CheckpointManager(folder, options=options) as manager:
            for step in range(4):
                state = {"v": jnp.full((3,), float(step))}
                manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
            latest = manager.latest_step()
            restored = manager.restore(latest, args=ocp.args.StandardRestore(state))
            return manager.all_steps(), latest, restored
