"""The rule behind `jax_wheel`."""

# A wheel without machine code has files of this repository alone: packages that they import need not be fetched.
def _own_files_impl(settings, attr):
    setting = str(Label("//build/bazel:packages"))
    return {setting: settings[setting] and attr.native_code}

_own_files = transition(
    implementation = _own_files_impl,
    inputs = [str(Label("//build/bazel:packages"))],
    outputs = [str(Label("//build/bazel:packages"))],
)

def _wheel_impl(ctx):
    output = ctx.actions.declare_file(ctx.attr.filename)
    others = [dep[DefaultInfo].default_runfiles.files for dep in ctx.attr.without]
    others = {file: True for file in depset(transitive = others).to_list()}
    runfiles = [dep[DefaultInfo].default_runfiles.files for dep in ctx.attr.deps]
    files = [
        file
        for file in depset(transitive = runfiles).to_list()
        if file.owner.workspace_name == "" and not file.is_directory and file not in others
    ]
    prefix = ctx.attr.strip_prefix + "/" if ctx.attr.strip_prefix else ""
    entries = ctx.actions.args()
    entries.set_param_file_format("multiline")
    entries.use_param_file("@%s", use_always = True)
    for file in files:
        path = file.short_path
        if not path.startswith(prefix):
            fail("%s is not under %s" % (path, prefix))
        entries.add("%s\t%s" % (path[len(prefix):], file.path))
    arguments = ctx.actions.args()
    arguments.add("--output", output)
    arguments.add("--pyproject", ctx.file.pyproject)
    arguments.add("--license", ctx.file.license)
    arguments.add("--version", ctx.attr.version)
    notices = []
    for target, name in ctx.attr.notices.items():
        for file in target[DefaultInfo].files.to_list():
            arguments.add("--notice", "%s\t%s" % (name, file.path))
            notices.append(file)
    if ctx.attr.tag:
        arguments.add("--tag", ctx.attr.tag)
    if ctx.attr.sdist:
        arguments.add("--sdist")
    arguments.add_all(ctx.attr.top_level, before_each = "--top-level")
    arguments.add("--readme", ctx.file.readme)
    ctx.actions.run(
        executable = ctx.executable._tool,
        arguments = [arguments, entries],
        inputs = depset(files + notices + [ctx.file.readme, ctx.file.pyproject, ctx.file.license]),
        outputs = [output],
        mnemonic = "Wheel",
        progress_message = "Packing %{output}",
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

wheel = rule(
    implementation = _wheel_impl,
    doc = "Packs libraries into a wheel or a source archive. Use `jax_wheel`.",
    attrs = {
        "deps": attr.label_list(
            doc = "What is packed: the files in them that are of this repository.",
            cfg = _own_files,
        ),
        "filename": attr.string(doc = "The name of the file.", mandatory = True),
        "license": attr.label(doc = "The text of the licence.", allow_single_file = True, mandatory = True),
        "native_code": attr.bool(doc = "Whether some of it is compiled."),
        "notices": attr.label_keyed_string_dict(
            doc = "Licences of what is linked in, with names.",
            allow_files = True,
            cfg = "exec",
        ),
        "pyproject": attr.label(doc = "Its `[project]` is the metadata.", allow_single_file = True, mandatory = True),
        "readme": attr.label(doc = "What pyproject.toml's `readme` means.", allow_single_file = True, mandatory = True),
        "sdist": attr.bool(doc = "Makes a source archive."),
        "strip_prefix": attr.string(doc = "A folder left out of the paths."),
        "tag": attr.string(doc = "The wheel's tag, `py3-none-any`."),
        "top_level": attr.string_list(doc = "Folders that may be at the top."),
        "version": attr.string(doc = "The version.", mandatory = True),
        "without": attr.label_list(
            doc = "Libraries of other wheels.",
            cfg = _own_files,
        ),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
        "_tool": attr.label(default = "//build/bazel:pack_wheel", executable = True, cfg = "exec"),
    },
)
