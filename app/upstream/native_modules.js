// Fall back to es-module-shims for modules with bare import names, which need its import map.
const shim = window.importShim;
const load = (address) => import(new URL(address, document.baseURI)).catch(() => shim(address));
window.importShim = Object.assign(load, { addImportMap: (map) => shim.addImportMap(map) });
