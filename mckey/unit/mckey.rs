//! Unit tests of `src/mckey.rs`.

use super::*;

fn options(connections: i32) -> Options {
    Options {
        connections,
        message_size: 100,
        message_count: 10,
        is_sender: false,
        unmapped_addr: false,
        dst_addr: None,
        src_addr: None,
        port_space: rdma_port_space::RDMA_PS_UDP,
    }
}

#[test]
fn addresses_of_both_families() {
    let mut addr = get_addr(Some("239.1.2.3")).unwrap();
    assert_eq!(addr.sin6_family, libc::AF_INET as libc::sa_family_t);
    let addr: *const libc::sockaddr_in = ptr::from_mut(&mut addr).cast();
    // SAFETY: the family says that this is an IPv4 address, and it fits.
    let s_addr = unsafe { (*addr).sin_addr.s_addr };
    assert_eq!(s_addr.to_ne_bytes(), [239, 1, 2, 3]);

    let addr = get_addr(Some("ff02::1:3")).unwrap();
    assert_eq!(addr.sin6_family, libc::AF_INET6 as libc::sa_family_t);
    assert_eq!(Ipv6Addr::from(addr.sin6_addr.s6_addr).to_string(), "ff02::1:3");
}

#[test]
fn an_address_is_needed() {
    assert_eq!(get_addr(None).err(), Some(libc::EAI_NONAME));
    assert_eq!(get_addr(Some("239.1.2.3\0")).err(), Some(libc::EAI_NONAME));
}

#[test]
fn negative_numbers_of_connections() {
    for connections in [-1, i32::MIN] {
        let mut test = Cmatest {
            channel: ptr::null_mut(),
            nodes: Vec::new(),
            connects_left: connections,
            dst_in: zeroed(),
            src_in: None,
        };
        assert_eq!(alloc_nodes(&mut test, &options(connections)), Err(-libc::ENOMEM));
        assert!(test.nodes.is_empty());
    }
}
