// Modules that import others by bare names need the import map of es-module-shims.
const shim = window.importShim;
const load = (address) => import(new URL(address, document.baseURI)).catch(() => shim(address));
window.importShim = Object.assign(load, { addImportMap: (map) => shim.addImportMap(map) });
