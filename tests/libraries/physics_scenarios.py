"""Bodies in motion, in brax and in MuJoCo's MJX."""

import mujoco
from brax import envs
from brax.generalized import pipeline as generalized
from brax.io import mjcf
from brax.positional import pipeline as positional
from brax.spring import pipeline as spring
from mujoco import mjx
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define

PENDULUM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05" mass="1"/>
      <body pos="0.5 0 0">
        <joint name="elbow" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="elbow" gear="2"/></actuator>
</mujoco>
"""

FALLING = """
<mujoco>
  <option timestep="0.005" iterations="4" ls_iterations="6"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.14">
      <freejoint/>
      <geom type="sphere" size="0.1" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""


def steps_of_mjx(xml, velocities, number):
    model = mujoco.MjModel.from_xml_string(xml)
    device_model = mjx.put_model(model)
    start = mjx.make_data(device_model).replace(qvel=jnp.asarray(velocities, jnp.float32))

    def step(data, control):
        data = mjx.step(device_model, data.replace(ctrl=jnp.full_like(data.ctrl, control)))
        return data, (data.qpos, data.qvel)

    controls = jnp.sin(jnp.arange(number) * 0.3)
    return jax.jit(lambda data: jax.lax.scan(step, data, controls))(start)[1]


@scenario(tol=1e-3)
def mjx_pendulum():
    return steps_of_mjx(PENDULUM, [1.0, -0.5], 8)


@scenario(tol=1e-3)
def mjx_contact():
    return steps_of_mjx(FALLING, [0.5, 0, -1, 0, 0, 0], 12)


@scenario(tol=1e-3)
def mjx_derivative_of_a_step():
    model = mjx.put_model(mujoco.MjModel.from_xml_string(PENDULUM))
    data = mjx.make_data(model)

    def height(qpos):
        return mjx.forward(model, data.replace(qpos=qpos)).geom_xpos[-1, 2]

    return jax.jit(jax.value_and_grad(height))(jnp.array([0.3, -0.2]))


def steps_of_brax(pipeline):
    system = mjcf.loads(PENDULUM)
    state = pipeline.init(system, jnp.array([0.3, -0.4]), jnp.zeros(2))

    def step(state, action):
        state = pipeline.step(system, state, action)
        return state, (state.q, state.x.pos)

    actions = jnp.cos(jnp.arange(6.0))[:, None]
    return jax.jit(lambda s: jax.lax.scan(step, s, actions))(state)[1]


@scenario(tol=1e-3)
def brax_pipelines():
    return [steps_of_brax(p) for p in (generalized, positional, spring)]


@scenario(tol=1e-3)
def brax_environment():
    environment = envs.get_environment("inverted_pendulum", backend="generalized")
    state = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 3))

    def step(state, action):
        state = jax.vmap(environment.step)(state, jnp.full((3, 1), action))
        return state, (state.obs, state.reward, state.done)

    return jax.jit(lambda s: jax.lax.scan(step, s, jnp.arange(4) * 0.3))(state)[1]
