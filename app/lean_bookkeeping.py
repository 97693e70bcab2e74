"""What param, Bokeh and Panel note about each component of a page, in less room and less time, with the same results.

A page is some hundred components and three hundred models, and what is noted about them is most of what it takes to
build and to keep: of 5.4 MB a page, 1.4 were sets of one owner each, 1.1 lists of one watcher each, 0.7 copies of
parameters that nobody changes. Each function here replaces one habit, for the whole process; all are harmless if called
twice.
"""

# ruff: noqa: SLF001 - none of these habits can be changed from outside

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Literal

from bokeh.core.has_props import HasProps, MetaHasProps
from bokeh.core.property.descriptors import PropertyDescriptor
from bokeh.core.property.wrappers import PropertyValueContainer
from bokeh.core.serialization import Ref, Serializer
from bokeh.core.types import ID
from bokeh.settings import settings
from panel.config import config
from panel.custom import ReactiveESM
from panel.io import resources
from panel.reactive import ReactiveCustomBase, Syncable
from panel.util import classproperty
from panel.viewable import is_viewable_param
from panel_material_ui.base import MaterialComponent
from param.parameterized import Parameters, Watcher

MARK = "fieldlab_lean"
PLAIN = (bool, int, float, str, bytes, type(None))  # values that can be shared, as nobody can change them


def install() -> None:
    """Replace all of them."""
    if getattr(HasProps, MARK, False):
        return
    setattr(HasProps, MARK, True)
    settings.perform_error_diagnostics = False  # Bokeh looks up the signature of each callback: 7 % of building a page
    settings.perform_document_validation = False  # nor whether all plots have something to show: a tenth of it
    keep_owners_in_tuples()
    find_defaults_once()
    define_kinds_once()
    find_files_once()
    share_watchers()
    read_parameters_of_classes()
    share_links()
    tag_parts_once()


def keep_owners_in_tuples() -> None:
    """Have each list and dict of a model keep whom it tells of changes, one model nearly always, in a tuple: 56 bytes.

    Bokeh has a set, of 216 bytes, 2400 times a page.
    """

    def register(container: PropertyValueContainer, owner: HasProps, descriptor: PropertyDescriptor[Any]) -> None:
        """Tell `owner` from now on."""
        if (owner, descriptor) not in container._owners:
            container._owners = (*container._owners, (owner, descriptor))  # type: ignore[assignment]

    def unregister(container: PropertyValueContainer, owner: HasProps, descriptor: PropertyDescriptor[Any]) -> None:
        """Tell it no longer."""
        gone = owner, descriptor
        container._owners = tuple(pair for pair in container._owners if pair != gone)  # type: ignore[assignment]

    if "__init__" in vars(PropertyValueContainer):
        del PropertyValueContainer.__init__  # makes the set, and calls that of list, dict or set, as is done without it
    PropertyValueContainer._owners = ()  # type: ignore[assignment]
    PropertyValueContainer._register_owner = register  # type: ignore[method-assign]
    PropertyValueContainer._unregister_owner = unregister  # type: ignore[method-assign]


def find_defaults_once() -> None:
    """Have Bokeh find and check a class's default of a property once, where it is a plain value.

    It does so whenever it is read, 11 000 times a page: a fifth of building it.
    """
    given = PropertyDescriptor.instance_default
    kept: dict[tuple[type[HasProps], str], Any] = {}
    overridden: dict[type[HasProps], dict[str, Any]] = {}
    find_overridden: Callable[[type[HasProps]], dict[str, Any]] = vars(HasProps)["_overridden_defaults"].__func__

    def defaults(kind: type[HasProps]) -> dict[str, Any]:
        """The defaults that `kind` and the classes it derives from have in place of inherited ones."""
        found = overridden.get(kind)
        if found is None:
            found = overridden[kind] = find_overridden(kind)
        return found

    def default(descriptor: PropertyDescriptor[Any], model: HasProps) -> Any:
        """The default of the property for `model`."""
        themed = model.themed_values()
        if themed is not None and descriptor.name in themed:
            return given(descriptor, model)
        key = type(model), descriptor.name
        if key in kept:
            return kept[key]
        value = given(descriptor, model)
        if isinstance(value, PLAIN) and not descriptor.has_unstable_default(model):
            kept[key] = value
        return value

    HasProps._overridden_defaults = classmethod(defaults)  # type: ignore[assignment,method-assign]
    PropertyDescriptor.instance_default = default  # type: ignore[method-assign]


def define_kinds_once() -> None:
    """Have Bokeh write the definition of each kind of component once: all 160 take 10 ms, with every page."""
    given = Serializer._encoders[MetaHasProps]
    kept: dict[type[HasProps], Any] = {}

    def definition(kind: type[HasProps], serializer: Serializer) -> Any:
        """The definition of `kind`, or its name where it has been defined."""
        if kind in kept:
            serializer.add_ref(kind, Ref(id=ID(kind.__qualified_model__)))
            return kept[kind]
        before, buffers = set(serializer._references), len(serializer._buffers)
        found = given(kind, serializer)
        named = serializer._references.keys() - before - {id(one) for one in (kind, *kind.__bases__)}
        if not named and buffers == len(serializer._buffers) and found.get("extends", {}).keys() <= {"id"}:
            kept[kind] = found  # nothing of it is defined elsewhere, or lies beside it
        return found

    Serializer._encoders[MetaHasProps] = definition


def find_files_once() -> None:
    """Have Panel find the script and the styles of each kind of component once.

    It looks for them on the disk some 900 times while it builds a page, and 1900 times to name a page's styles in its
    head: a third of the former, all but a tenth of the latter. To name them it also asks of 240 paths where they lie,
    for which Python enters each path's parts into its table of strings and takes them out again: after some 250 pages
    the table doubled, by 3.7 MB.
    """
    for owner in (ReactiveESM, MaterialComponent):
        for name in ("_bundle_path", "_bundle_css"):
            setattr(owner, name, classproperty(_once(vars(owner)[name].f)))
        owner._esm_path = classmethod(_once(vars(owner)["_esm_path"].__func__))
    resources._is_subpath = lru_cache(4096)(resources._is_subpath)  # some 300 pairs of a path and a folder of a package


def _once(find: Callable[..., Any]) -> Callable[..., Any]:
    """`find`, which is asked once for each kind of component, unless files are watched for changes."""
    kept = cache(find)

    def found(*about: Any, **more: Any) -> Any:
        """What `find` has found."""
        return (find if config.autoreload else kept)(*about, **more)

    return found


def share_watchers() -> None:
    """Have the parameters of a component that are watched by the same watchers share one list of them.

    Panel watches some twenty parameters of each component at once, and param makes a dict and a list for every one.
    What is shared is never changed, but replaced.
    """
    given = Parameters._register_watcher

    def register(
        parameters: Parameters, action: Literal["append", "remove"], watcher: Watcher, what: str = "value"
    ) -> None:
        """Take the place of param's own for the values of an object; the rest is left to that."""
        owner = parameters.self
        if owner is None or what != "value" or not owner._param__private.initialized:
            given(parameters, action, watcher, what)
            return
        watched, nobody = owner._param__private.watchers, dict[str, Any]()
        made: dict[int, tuple[Any, Any]] = {}  # what is replaced, by its id, and by what
        for name in watcher.parameter_names:
            if name not in parameters.cls.param:
                raise ValueError(f"{name} is not a parameter of {parameters.cls.__name__}")
            before = watched.get(name, nobody)
            if id(before) not in made:
                made[id(before)] = before, {**before, what: _changed(before.get(what, ()), action, watcher)}
            watched[name] = made[id(before)][1]

    Parameters._register_watcher = register  # type: ignore[method-assign,assignment]


def _changed(watchers: Iterable[Watcher], action: str, watcher: Watcher) -> list[Watcher]:
    """`watchers` with one more, or one less if it is there."""
    changed = list(watchers)
    if action == "append":
        changed.append(watcher)
    elif watcher in changed:
        changed.remove(watcher)
    return changed


class _Switch(threading.local):
    """Whether something holds for this thread now."""

    on = False


def read_parameters_of_classes() -> None:
    """Have Panel read the parameters of a component's class while it makes a model of it.

    It asks the component, for which param copies each of them, 2000 a page; a copy is needed by who changes one.
    """
    given, find_properties, reading = Parameters.__getitem__, ReactiveESM._get_properties, _Switch()

    def parameter(parameters: Parameters, name: str) -> Any:
        """The parameter of that name: the object's own if it has one, which it gets unless it is only read."""
        owner = parameters.self
        if reading.on and owner is not None and name not in owner._param__private.params:
            return parameters.objects(instance=False)[name]
        return given(parameters, name)

    def properties(component: ReactiveESM, doc: Any) -> Any:
        """Panel's own, which changes no parameter."""
        before, reading.on = reading.on, True
        try:
            return find_properties(component, doc)
        finally:
            reading.on = before

    def children(component: ReactiveESM, data_model: Any, doc: Any, root: Any, parent: Any, comm: Any) -> Any:
        """Take the place of Panel's own: the models of its children by parameter, and those that were there before."""
        models, there = {}, []
        for name, about in component.param.objects(instance=False).items():
            if is_viewable_param(about) and component._property_mapping.get(name, "") is not None:
                models[name], old = component._get_child_model(getattr(component, name), doc, root, parent, comm)
                there += old
        return models, there

    Parameters.__getitem__ = parameter  # type: ignore[method-assign]
    ReactiveESM._get_properties = properties  # type: ignore[method-assign]
    ReactiveESM._get_children = children  # type: ignore[method-assign]


def tag_parts_once() -> None:
    """Have Panel look for parts of a component that do not name their page yet only where they may be new.

    It goes through all models below a component whenever a value of it changes; for the page itself, as a bar is opened
    or closed, these are all that there are: 10 ms.
    """
    tag, write = vars(ReactiveCustomBase)["_patch_datamodel_ref"].__func__, ReactiveESM._set_on_model
    writing = _Switch()

    def tag_new(kind: type[ReactiveCustomBase], props: Any, ref: Any) -> None:
        """Take the place of Panel's own; a tag is put on everything below a component when that is made."""
        if not (writing.on and f"__ref:{ref}" in props.tags):
            tag(kind, props, ref)

    def write_values(component: ReactiveESM, values: Mapping[str, Any], root: Any, model: Any) -> list[str]:
        """Panel's own, which brings no model where the values are plain."""
        before, writing.on = writing.on, all(isinstance(value, PLAIN) for value in values.values())
        try:
            return write(component, values, root, model)
        finally:
            writing.on = before

    ReactiveCustomBase._patch_datamodel_ref = classmethod(tag_new)  # type: ignore[assignment,method-assign]
    ReactiveESM._set_on_model = write_values  # type: ignore[method-assign]


def share_links() -> None:
    """Have Panel hear of all changes of a model by one callback, not by one for each of its properties."""
    given = Syncable._link_props

    def link(component: Syncable, model: Any, properties: Sequence[Any], doc: Any, root: Any, comm: Any = None) -> None:
        """Take the place of Panel's own for a component that is served."""
        names = [name for name in properties if isinstance(name, str) and "." not in name]
        if comm is not None or config.embed or len(names) < len(properties):
            given(component, model, properties, doc, root, comm)
            return
        changed = partial(component._server_change, doc, root.ref["id"], None)
        for name in names:
            model.on_change(name, changed)

    Syncable._link_props = link  # type: ignore[method-assign]
