//! Numbers that a seed determines.

/// Numbers for moments and choices (an LCG). `SOFT_HCA_SEED` in the environment starts them
/// differently.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Other numbers for each `salt`.
    pub fn new(salt: u64) -> Self {
        let seed = std::env::var("SOFT_HCA_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(1u64);
        println!("SOFT_HCA_SEED={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt)
    }

    /// One of 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}
