//! Words of ports and paths.

words! {
    /// Path MTUs (`enum ibv_mtu`).
    Mtu, mtu, "IBV_":
    MTU_256 = 1,
    MTU_512 = 2,
    MTU_1024 = 3,
    MTU_2048 = 4,
    MTU_4096 = 5,
}

impl Mtu {
    /// Bytes of payload that a packet has at most. Any other number counts as the nearest MTU.
    #[inline]
    pub fn bytes(self) -> u32 {
        128 << self.0.clamp(Self::MTU_256.0, Self::MTU_4096.0)
    }
}

words! {
    /// States of ports (`enum ibv_port_state`).
    PortState, port_state, "IBV_PORT_":
    NOP = 0,
    DOWN = 1,
    INIT = 2,
    ARMED = 3,
    ACTIVE = 4,
    ACTIVE_DEFER = 5,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_has_bytes() {
        let bytes = |number| Mtu(number).bytes();
        assert_eq!([1, 2, 3, 4, 5].map(bytes), [256, 512, 1024, 2048, 4096]);
        assert_eq!([0, 9].map(bytes), [256, 4096]);
    }
}
