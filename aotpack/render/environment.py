"""The one Jinja environment. A template gets one frozen context; it loops, branches and prints."""

from fnmatch import fnmatch
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from aotpack.errors import AotpackError


@cache
def environment() -> Environment:
    try:
        loader = PackageLoader("aotpack.templates", "")
    except (ModuleNotFoundError, ValueError) as error:
        raise AotpackError(
            "rendering kernels: aotpack.templates is not there. A checkout has that folder beside "
            "aotpack: install it (pip install -e .), or ln -s ../templates aotpack/templates"
        ) from error
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render_template(name: str, context: object) -> str:
    """Render a template with its context, which the template knows as ``c``.

    ``template`` is the name in headers: of the outermost template, where one includes another.
    """
    return environment().get_template(name).render(c=context, template=name)


def render_page(name: str, context: object) -> str:
    """Render a template of HTML, which escapes what it prints."""
    page = environment().overlay(autoescape=True)
    return page.get_template(name).render(c=context, template=name)


def render_function(template: str, name: str, *context: object) -> str:
    """The text of a device function: a macro of a template, called with its contexts."""
    macro = getattr(environment().get_template(template).module, name)
    return f"# template: {template}\n{macro(*context)}"


def template_texts(pattern: str) -> tuple[str, ...]:
    """The sources of the templates whose file names match a pattern."""
    made = environment()
    assert made.loader is not None
    names = made.list_templates(filter_func=lambda name: fnmatch(name, pattern))
    return tuple(made.loader.get_source(made, name)[0] for name in names)
