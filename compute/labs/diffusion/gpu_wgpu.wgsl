// Diffusion in WGSL: one step per launch, STEPS steps per launch in a tile, the racing kernel, and the Laplacian.
// edges: 0 periodic, 1 zero flux (mirror, u[-1-k] = u[k]), 2 zero Dirichlet (0 at -1 and n, odd reflection beyond).

struct Numbers { ny: i32, nx: i32, edges: i32, r: f32, zero: u32 }
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
var<immediate> p: Numbers;

// Differences of the fluxes, as in cpu_numpy.py, rounded alike: see wgsl.py for `exact` and `kept`.
fn laplace(n: f32, s: f32, w: f32, e: f32, c: f32) -> f32 {
    return kept(kept(s - c) - kept(c - n)) + kept(kept(e - c) - kept(c - w));
}

fn next(n: f32, s: f32, w: f32, e: f32, c: f32) -> f32 {
    return c + exact(p.r * kept(laplace(n, s, w, e, c)));
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

// -- one step per launch: a thread computes RUN cells of a column

fn sweep(id: vec3<u32>, only_laplacian: bool) {
    let x = i32(id.x);
    let first = i32(id.y) * RUN;
    if (x >= p.nx || first >= p.ny) { return; }
    var n = cell(first - 1, x);
    var c = cell(first, x);
    /*unroll*/ for (var k = 0; k < RUN; k++) {
        let y = first + k;
        if (y >= p.ny) { return; }
        let s = cell(y + 1, x);
        let w = cell(y, x - 1);
        let e = cell(y, x + 1);
        if (only_laplacian) {
            result[at(y, x)] = laplace(n, s, w, e, c);
        } else {
            result[at(y, x)] = next(n, s, w, e, c);
        }
        n = c;
        c = s;
    }
}

@compute @workgroup_size(32, 8)
fn one_step(@builtin(global_invocation_id) id: vec3<u32>) { sweep(id, false); }

@compute @workgroup_size(32, 8)
fn laplacian(@builtin(global_invocation_id) id: vec3<u32>) { sweep(id, true); }

// -- STEPS steps per launch: a workgroup loads a tile with a halo of STEPS cells; a thread has ROWS cells of a column

var<workgroup> tile: array<array<f32, WIDTH>, HEIGHT>;

@compute @workgroup_size(WIDTH, BANDS)
fn many_steps(@builtin(local_invocation_id) thread: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let left = i32(group.x) * (WIDTH - 2 * STEPS) - STEPS;
    let top = i32(group.y) * (HEIGHT - 2 * STEPS) - STEPS;
    let column = i32(thread.x);
    let first = i32(thread.y) * ROWS;
    let west = max(column - 1, 0);
    let east = min(column + 1, WIDTH - 1);
    let above = max(first - 1, 0);
    let below = min(first + ROWS, HEIGHT - 1);
    var own: array<f32, ROWS>;
    /*unroll*/ for (var k = 0; k < ROWS; k++) {
        own[k] = cell(top + first + k, left + column);
        tile[first + k][column] = own[k];
    }
    for (var t = 0; t < STEPS; t++) {
        workgroupBarrier();
        var n = tile[above][column];
        let last = tile[below][column];
        /*unroll*/ for (var k = 0; k < ROWS; k++) {
            let c = own[k];
            var s = last;
            if (k + 1 < ROWS) { s = own[min(k + 1, ROWS - 1)]; }
            own[k] = next(n, s, tile[first + k][west], tile[first + k][east], c);
            n = c;
        }
        workgroupBarrier();
        /*unroll*/ for (var k = 0; k < ROWS; k++) { tile[first + k][column] = own[k]; }
    }
    let x = left + column;
    if (column < STEPS || column >= WIDTH - STEPS || x >= p.nx) { return; }
    /*unroll*/ for (var k = 0; k < ROWS; k++) {
        let row = first + k;
        if (row >= STEPS && row < HEIGHT - STEPS && top + row < p.ny) { result[at(top + row, x)] = own[k]; }
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
