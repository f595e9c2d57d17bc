//! Numbers that look like chance and are the same every time, for tests of estimators.

use super::special::normal_quantile;

/// Standard normal numbers (uniform ones: Marsaglia 2003, "Xorshift RNGs"). The first ones of near seeds, which resemble each
/// other, are left out.
pub(crate) fn normals(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let numbers = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        normal_quantile(((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64)
    });
    numbers.skip(20)
}
