// Moves a picture, fills one, and excludes cells of one, as words: see gather, fill and exclude in cpu_numpy.py.

struct Numbers {
    first: u32, ny: i32, nx: i32, first_written: u32, rows: i32, columns: i32, num: i32, den: i32, y0: i32, x0: i32, fill: u32,
    zero: u32
}
@group(0) @binding(0) var<storage, read> source: array<u32>;  // ny x nx words from word `first` on
@group(0) @binding(1) var<storage, read_write> result: array<u32>;  // rows x columns words from word `first_written` on
@group(0) @binding(2) var<storage, read> mask: array<f32>;  // rows x columns, without NaN
var<immediate> p: Numbers;

// k / den if den divides k, and it is below n; else -1
fn place(k: i32, n: i32) -> i32 {
    if (k < 0 || k % p.den != 0) { return -1; }
    let found = k / p.den;
    return select(-1, found, found < n);
}

@compute @workgroup_size(256)
fn gather(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = i32(id.y * 65535u * 256u + id.x);
    if (k >= p.rows * p.columns) { return; }
    let y = place((k / p.columns) * p.num + p.y0, p.ny);
    let x = place((k % p.columns) * p.num + p.x0, p.nx);
    var word = p.fill;
    if (y >= 0 && x >= 0) { word = source[p.first + u32(y) * u32(p.nx) + u32(x)]; }
    result[p.first_written + u32(k)] = word;
}

@compute @workgroup_size(256)
fn fill(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = i32(id.y * 65535u * 256u + id.x);
    if (k < p.rows * p.columns) { result[p.first_written + u32(k)] = p.fill; }
}

// `fill` where the mask is 1 or larger
@compute @workgroup_size(256)
fn exclude(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) < p.rows * p.columns) { result[k] = select(source[k], p.fill, mask[k] >= 1.0); }
}
