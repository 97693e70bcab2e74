// Diffusion in WGSL: one step per launch, STEPS steps per launch, the racing kernel, and the Laplacian.
// edges: 0 periodic, 1 zero flux (mirror, u[-1-k] = u[k]), 2 zero Dirichlet (0 at -1 and n, odd reflection beyond).

struct Numbers { ny: i32, nx: i32, edges: i32, r: f32, rows: i32, zero: u32 }  // rows: that a workgroup of many_steps writes
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
var<immediate> p: Numbers;

// Differences of the fluxes, as in cpu_numpy.py, rounded alike: see wgsl.py for `product` and `kept`.
fn laplace(n: f32, s: f32, w: f32, e: f32, c: f32) -> f32 {
    return kept(kept(s - c) - kept(c - n)) + kept(kept(e - c) - kept(c - w));
}

fn next(n: f32, s: f32, w: f32, e: f32, c: f32) -> f32 {
    return c + product(p.r, kept(laplace(n, s, w, e, c)));
}

struct Image { index: i32, sign: i32 }

// The cell that a ghost cell mirrors; sign: -1 for an odd reflection, 0 for a ghost cell that is held at zero.
fn fold(k: i32, n: i32) -> Image {
    var i = k;
    var sign = 1;
    while (i < 0 || i >= n) {
        if (p.edges == 0) {
            i += select(-n, n, i < 0);
        } else if (p.edges == 1) {
            i = select(2 * n - 1 - i, -1 - i, i < 0);
        } else {
            if (i == -1 || i == n) { return Image(0, 0); }
            i = select(2 * n - i, -2 - i, i < 0);
            sign = -sign;
        }
    }
    return Image(i, sign);
}

fn at(y: i32, x: i32) -> u32 { return u32(y) * u32(p.nx) + u32(x); }

fn cell(y: i32, x: i32) -> f32 {
    if (y >= 0 && y < p.ny && x >= 0 && x < p.nx) { return source[at(y, x)]; }
    let row = fold(y, p.ny);
    let column = fold(x, p.nx);
    let sign = row.sign * column.sign;
    let value = source[at(row.index, column.index)];
    return select(select(0.0, -value, sign < 0), value, sign > 0);
}

// -- one step per launch: a thread computes RUN cells of a column, and loads them with their neighbours at once

fn sweep(id: vec3<u32>, only_laplacian: bool) {
    let x = i32(id.x);
    let first = i32(id.y) * RUN;
    if (x >= p.nx || first >= p.ny) { return; }
    /*registers*/ var c: array<f32, RUN + 2>;  // from the row above the first
    /*registers*/ var w: array<f32, RUN>;
    /*registers*/ var e: array<f32, RUN>;
    if (x > 0 && x + 1 < p.nx && first > 0 && first + RUN < p.ny) {
        let above = at(first - 1, x);
        /*unroll*/ for (var k = 0; k < RUN + 2; k++) { c[k] = source[above + u32(k) * u32(p.nx)]; }
        /*unroll*/ for (var k = 0; k < RUN; k++) {
            w[k] = source[above + u32(k + 1) * u32(p.nx) - 1u];
            e[k] = source[above + u32(k + 1) * u32(p.nx) + 1u];
        }
    } else {
        /*unroll*/ for (var k = 0; k < RUN + 2; k++) { c[k] = cell(min(first + k - 1, p.ny), x); }
        /*unroll*/ for (var k = 0; k < RUN; k++) {
            w[k] = cell(min(first + k, p.ny), x - 1);
            e[k] = cell(min(first + k, p.ny), x + 1);
        }
    }
    /*unroll*/ for (var k = 0; k < RUN; k++) {
        if (first + k < p.ny) {
            if (only_laplacian) {
                result[at(first + k, x)] = laplace(c[k], c[k + 2], w[k], e[k], c[k + 1]);
            } else {
                result[at(first + k, x)] = next(c[k], c[k + 2], w[k], e[k], c[k + 1]);
            }
        }
    }
}

@compute @workgroup_size(32, 8)
fn one_step(@builtin(global_invocation_id) id: vec3<u32>) { sweep(id, false); }

@compute @workgroup_size(32, 8)
fn laplacian(@builtin(global_invocation_id) id: vec3<u32>) { sweep(id, true); }

// The same for rows of whole vectors: a thread computes two vectors, one below the other. Gcell/s on an H200 at 2048^2 and
// 8192^2: 474 and 511, where `one_step` gives 384 and 433 and CUDA C 453 and 493.

@group(0) @binding(0) var<storage, read> source_vectors: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> result_vectors: array<vec4<f32>>;

fn vector_at(y: i32, x: i32) -> u32 { return (u32(y) * u32(p.nx) + u32(x)) / 4u; }

fn number(y: i32, x: i32) -> f32 {
    let row = fold(y, p.ny);
    let column = fold(x, p.nx);
    let sign = row.sign * column.sign;
    let value = source_vectors[vector_at(row.index, column.index)][u32(column.index) % 4u];
    return select(select(0.0, -value, sign < 0), value, sign > 0);
}

fn four(y: i32, x: i32) -> vec4<f32> {
    if (y >= 0 && y < p.ny) { return source_vectors[vector_at(y, x)]; }
    return vec4(number(y, x), number(y, x + 1), number(y, x + 2), number(y, x + 3));
}

fn write_four(y: i32, x: i32, n: vec4<f32>, s: vec4<f32>, c: vec4<f32>, only_laplacian: bool) {
    let w = vec4(number(y, x - 1), c.xyz);
    let e = vec4(c.yzw, number(y, x + 4));
    var value: vec4<f32>;
    /*unroll*/ for (var k = 0; k < 4; k++) {
        if (only_laplacian) {
            value[k] = laplace(n[k], s[k], w[k], e[k], c[k]);
        } else {
            value[k] = next(n[k], s[k], w[k], e[k], c[k]);
        }
    }
    result_vectors[vector_at(y, x)] = value;
}

fn sweep_vectors(id: vec3<u32>, only_laplacian: bool) {
    let x = i32(id.x) * 4;
    let y = i32(id.y) * 2;
    if (x >= p.nx || y >= p.ny) { return; }
    let first = four(y, x);
    let second = four(y + 1, x);
    write_four(y, x, four(y - 1, x), second, first, only_laplacian);
    if (y + 1 < p.ny) { write_four(y + 1, x, first, four(y + 2, x), second, only_laplacian); }
}

@compute @workgroup_size(32, 8)
fn one_step_of_vectors(@builtin(global_invocation_id) id: vec3<u32>) { sweep_vectors(id, false); }

@compute @workgroup_size(32, 8)
fn laplacian_of_vectors(@builtin(global_invocation_id) id: vec3<u32>) { sweep_vectors(id, true); }

// -- STEPS steps per launch: a workgroup passes down a strip of the grid; a thread has COLUMNS of its columns
//
// For each of STEPS time levels a thread keeps the newest row and its differences from the row above. In a turn one row
// of the grid arrives; each level computes the row above it at the next time, and passes it on to the next level. The
// threads exchange the ends of all rows once per turn: by shuffles if a workgroup is a subgroup of a known size, else
// through workgroup memory. Rows are loaded AHEAD turns before. The outer APRON columns of a strip and its first and last
// STEPS rows become invalid and are not written.
//
// Gcell/s on an H200 through Vulkan, at 512^2, 2048^2 and 8192^2 (CUDA C: 249, 1555 and 2489):
//   a tile of 32 x 64 cells in workgroup memory, 4 steps                 138   537   585
//   this with 1 subgroup per strip, 8 steps, the ends by shuffles        190   922  1803   needs subgroups of 32
//   the same, the ends through workgroup memory                          190   902  1582
//   2 subgroups per strip, 10 steps, AHEAD 2                             192   955  1561
//   the same, AHEAD 4                                                    173   997  1718
//   the same with rows as arrays that are copied as a whole              172   978  1400
//   4 columns as a vector, loaded as one                                  98   616   900
//   Dirichlet's signs applied where a row is loaded: it waits for it     183   882  1193
// Later, in one run (CUDA C: 237 or, where its launches took longer, 178; 1531 and 2338):
//   through workgroup memory, in long runs                               163   969  1433
//   the same, 2 columns per thread                                       183     -     -
//   1 subgroup per strip, 10 steps, the ends by shuffles, AHEAD 4        163  1009  1672   by 1056 or 1584 workgroups
//   the same, 2 columns per thread, AHEAD 2                              191     -     -   8 steps: 202

#include "ENDS.wgsl"

@compute @workgroup_size(THREADS)
fn many_steps(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let offset = i32(thread) * COLUMNS;
    let left = i32(group.x) * (THREADS * COLUMNS - 2 * APRON) - APRON;
    let x = left + offset;
    let writes = offset >= APRON && offset < THREADS * COLUMNS - APRON;
    let first = i32(group.y) * p.rows;
    let end = min(first + p.rows, p.ny);
    let top = first - STEPS;
    let turns = end - first + 2 * STEPS;
    let ghosts = left < 0 || left + THREADS * COLUMNS > p.nx || top < 0 || top + turns > p.ny;
    let signed = p.edges == 2 && ghosts;
    /*registers*/ var column: array<u32, COLUMNS>;
    /*registers*/ var sign: array<i32, COLUMNS>;
    /*unroll*/ for (var i = 0; i < COLUMNS; i++) {
        let image = fold(x + i, p.nx);
        column[i] = u32(image.index);
        sign[i] = image.sign;
    }
    /*registers*/ var loaded: array<array<f32, COLUMNS>, AHEAD>;
    /*unroll*/ for (var k = 0; k < AHEAD; k++) {
        let row = at(fold(top + min(k, turns - 1), p.ny).index, 0);
        /*unroll*/ for (var i = 0; i < COLUMNS; i++) { loaded[k][i] = source[row + column[i]]; }
    }
    /*registers*/ var newest: array<array<f32, COLUMNS>, STEPS>;
    /*registers*/ var fluxes: array<array<f32, COLUMNS>, STEPS>;  // newest row - row above
    /*registers*/ var s: array<f32, COLUMNS>;  // the row that arrives at a level
    /*registers*/ var c: array<f32, COLUMNS>;
    /*registers*/ var across: array<f32, COLUMNS + 1>;
    for (var begin = 0; begin < turns; begin += AHEAD) {
        /*unroll*/ for (var k = 0; k < AHEAD; k++) {
            let turn = begin + k;
            /*unroll*/ for (var i = 0; i < COLUMNS; i++) { s[i] = loaded[k][i]; }
            var y = top + min(turn + AHEAD, turns - 1);
            if (y < 0 || y >= p.ny) { y = fold(y, p.ny).index; }
            let row = at(y, 0);
            /*unroll*/ for (var i = 0; i < COLUMNS; i++) { loaded[k][i] = source[row + column[i]]; }
            if (signed) {
                let vertical = fold(top + min(turn, turns - 1), p.ny).sign;
                /*unroll*/ for (var i = 0; i < COLUMNS; i++) {
                    let both = vertical * sign[i];
                    s[i] = select(select(0.0, -s[i], both < 0), s[i], both > 0);
                }
            }
            /*unroll*/ for (var t = 0; t < STEPS; t++) {
                /*unroll*/ for (var i = 0; i < COLUMNS; i++) { c[i] = newest[t][i]; }
                across[0] = c[0] - end_of_west(k % 2 * STEPS + t, thread, c[COLUMNS - 1]);
                /*unroll*/ for (var i = 1; i < COLUMNS; i++) { across[i] = c[i] - c[i - 1]; }
                across[COLUMNS] = end_of_east(k % 2 * STEPS + t, thread, c[0]) - c[COLUMNS - 1];
                pass_on((k + 1) % 2 * STEPS + t, thread, s[0], s[COLUMNS - 1]);
                /*unroll*/ for (var i = 0; i < COLUMNS; i++) {
                    newest[t][i] = s[i];
                    let down = s[i] - c[i];
                    let lap = kept(kept(down) - kept(fluxes[t][i])) + kept(kept(across[i + 1]) - kept(across[i]));
                    fluxes[t][i] = down;
                    s[i] = c[i] + product(p.r, kept(lap));
                }
            }
            end_turn();
            let written = top + turn - STEPS;
            if (turn >= 2 * STEPS && written < end && writes) {
                /*unroll*/ for (var i = 0; i < COLUMNS; i++) {
                    if (x + i < p.nx) { result[at(written, x + i)] = s[i]; }
                }
            }
        }
    }
}

// -- in place while neighbouring workgroups still read the old values: a race, wrong on purpose

fn racing_cell(y: i32, x: i32) -> f32 {
    let row = fold(y, p.ny);
    let column = fold(x, p.nx);
    return select(result[at(row.index, column.index)], 0.0, row.sign == 0 || column.sign == 0);
}

var<workgroup> block: array<array<f32, 18>, 18>;

@compute @workgroup_size(16, 16)
fn racing_step(@builtin(local_invocation_id) thread: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let y = i32(group.y) * 16 + i32(thread.y);
    let x = i32(group.x) * 16 + i32(thread.x);
    for (var i = i32(thread.y); i < 18; i += 16) {
        for (var j = i32(thread.x); j < 18; j += 16) {
            let row = min(i32(group.y) * 16 + i - 1, p.ny);
            let column = min(i32(group.x) * 16 + j - 1, p.nx);
            block[i][j] = racing_cell(row, column);
        }
    }
    workgroupBarrier();
    if (y >= p.ny || x >= p.nx) { return; }
    let i = thread.y + 1u;
    let j = thread.x + 1u;
    result[at(y, x)] = next(block[i - 1u][j], block[i + 1u][j], block[i][j - 1u], block[i][j + 1u], block[i][j]);
}

// -- result = source

@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (k < u32(p.ny) * u32(p.nx)) { result[k] = source[k]; }
}
