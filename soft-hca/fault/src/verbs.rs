//! The calls that can be made to fail, and how each reports a failure.

/// How a function reports that it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fails {
    /// By NULL, with the reason in `errno`.
    Null,
    /// By -1, with the reason in `errno`.
    MinusOne,
    /// By the error number itself, which is in `errno` as well.
    Number,
    /// Not at all: it returns nothing.
    Never,
}

/// A function of libibverbs or librdmacm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// How it reports a failure.
    pub fails: Fails,
    /// Whether an argument says which queue pair it is about.
    pub has_queue_pair: bool,
}

/// Hands the table of calls to a macro: `exported` are functions of the libraries; `operations` those
/// of a context (`struct ibv_context_ops`) and `extended` those around it (`struct verbs_context`),
/// which inline functions of `verbs.h` call.
///
/// Each row has the function's arguments, of which `Qp` and `Id` say which queue pair it is about, and
/// what the section RETURN VALUE of its manual page says. `ibv_poll_cq`'s negative value is -1;
/// `ibv_rereg_mr`'s own codes are left out with it.
#[macro_export]
macro_rules! each_verb {
    ($then:ident) => {
        $then! {
            exported {
                ibv_get_device_list(count: Ptr) -> Null;
                ibv_free_device_list(list: Ptr) -> Never;
                ibv_get_device_name(device: Ptr) -> Null;
                ibv_open_device(device: Ptr) -> Null;
                ibv_import_device(fd: i32) -> Null;
                ibv_close_device(context: Ptr) -> MinusOne;
                ibv_fork_init() -> Number;
                ibv_get_async_event(context: Ptr, event: Ptr) -> MinusOne;
                ibv_ack_async_event(event: Ptr) -> Never;
                ibv_query_device(context: Ptr, attr: Ptr) -> Number;
                ibv_query_port(context: Ptr, port: u8, attr: Ptr) -> Number;
                ibv_query_gid(context: Ptr, port: u8, index: i32, gid: Ptr) -> MinusOne;
                ibv_query_pkey(context: Ptr, port: u8, index: i32, pkey: Ptr) -> MinusOne;
                ibv_get_pkey_index(context: Ptr, port: u8, pkey: u16) -> MinusOne;
                ibv_alloc_pd(context: Ptr) -> Null;
                ibv_import_pd(context: Ptr, handle: u32) -> Null;
                ibv_dealloc_pd(pd: Ptr) -> Number;
                ibv_reg_mr(pd: Ptr, addr: Ptr, length: usize, access: i32) -> Null;
                ibv_reg_mr_iova(pd: Ptr, addr: Ptr, length: usize, iova: u64, access: i32) -> Null;
                ibv_reg_mr_iova2(pd: Ptr, addr: Ptr, length: usize, iova: u64, access: u32) -> Null;
                ibv_reg_mr_ex(pd: Ptr, attr: Ptr) -> Null;
                ibv_alloc_buf(pd: Ptr, size: usize, buf: Ptr) -> Null;
                ibv_free_buf(buf: Ptr) -> Never;
                ibv_reg_buf_mr(pd: Ptr, buf: Ptr, addr: Ptr, length: usize, access: i32) -> Null;
                ibv_export_buf_dmabuf_fd(buf: Ptr) -> MinusOne;
                ibv_reg_dmabuf_mr(pd: Ptr, offset: u64, length: usize, iova: u64, fd: i32, access: i32) -> Null;
                ibv_import_mr(pd: Ptr, handle: u32) -> Null;
                ibv_dereg_mr(mr: Ptr) -> Number;
                ibv_create_comp_channel(context: Ptr) -> Null;
                ibv_destroy_comp_channel(channel: Ptr) -> Number;
                ibv_create_cq(context: Ptr, cqe: i32, cq_context: Ptr, channel: Ptr, vector: i32) -> Null;
                ibv_resize_cq(cq: Ptr, cqe: i32) -> Number;
                ibv_destroy_cq(cq: Ptr) -> Number;
                ibv_get_cq_event(channel: Ptr, cq: Ptr, cq_context: Ptr) -> MinusOne;
                ibv_ack_cq_events(cq: Ptr, count: u32) -> Never;
                ibv_create_srq(pd: Ptr, attr: Ptr) -> Null;
                ibv_modify_srq(srq: Ptr, attr: Ptr, mask: i32) -> Number;
                ibv_query_srq(srq: Ptr, attr: Ptr) -> Number;
                ibv_destroy_srq(srq: Ptr) -> Number;
                ibv_create_qp(pd: Ptr, attr: Ptr) -> Null;
                ibv_modify_qp(qp: Qp, attr: Ptr, mask: i32) -> Number;
                ibv_query_qp(qp: Qp, attr: Ptr, mask: i32, init_attr: Ptr) -> Number;
                ibv_destroy_qp(qp: Qp) -> Number;
                ibv_query_ece(qp: Qp, ece: Ptr) -> Number;
                ibv_set_ece(qp: Qp, ece: Ptr) -> Number;
                ibv_create_ah(pd: Ptr, attr: Ptr) -> Null;
                ibv_create_ah_from_wc(pd: Ptr, wc: Ptr, grh: Ptr, port: u8) -> Null;
                ibv_init_ah_from_wc(context: Ptr, port: u8, wc: Ptr, grh: Ptr, attr: Ptr) -> MinusOne;
                ibv_destroy_ah(ah: Ptr) -> Number;
                ibv_attach_mcast(qp: Qp, gid: Ptr, lid: u16) -> Number;
                ibv_detach_mcast(qp: Qp, gid: Ptr, lid: u16) -> Number;
                rdma_create_event_channel() -> Null;
                rdma_destroy_event_channel(channel: Ptr) -> Never;
                rdma_create_id(channel: Ptr, id: Ptr, context: Ptr, space: u32) -> MinusOne;
                rdma_destroy_id(id: Id) -> MinusOne;
                rdma_create_ep(id: Ptr, info: Ptr, pd: Ptr, attr: Ptr) -> MinusOne;
                rdma_destroy_ep(id: Id) -> Never;
                rdma_bind_addr(id: Id, addr: Ptr) -> MinusOne;
                rdma_resolve_addr(id: Id, source: Ptr, destination: Ptr, timeout: i32) -> MinusOne;
                rdma_resolve_route(id: Id, timeout: i32) -> MinusOne;
                rdma_create_qp(id: Id, pd: Ptr, attr: Ptr) -> MinusOne;
                rdma_create_qp_ex(id: Id, attr: Ptr) -> MinusOne;
                rdma_destroy_qp(id: Id) -> Never;
                rdma_create_srq(id: Id, pd: Ptr, attr: Ptr) -> MinusOne;
                rdma_create_srq_ex(id: Id, attr: Ptr) -> MinusOne;
                rdma_destroy_srq(id: Id) -> Never;
                rdma_connect(id: Id, param: Ptr) -> MinusOne;
                rdma_establish(id: Id) -> MinusOne;
                rdma_listen(id: Id, backlog: i32) -> MinusOne;
                rdma_get_request(listen: Id, id: Ptr) -> MinusOne;
                rdma_accept(id: Id, param: Ptr) -> MinusOne;
                rdma_reject(id: Id, data: Ptr, length: u8) -> MinusOne;
                rdma_reject_ece(id: Id, data: Ptr, length: u8) -> MinusOne;
                rdma_notify(id: Id, event: u32) -> MinusOne;
                rdma_disconnect(id: Id) -> MinusOne;
                rdma_join_multicast(id: Id, addr: Ptr, context: Ptr) -> MinusOne;
                rdma_join_multicast_ex(id: Id, attr: Ptr, context: Ptr) -> MinusOne;
                rdma_leave_multicast(id: Id, addr: Ptr) -> MinusOne;
                rdma_get_cm_event(channel: Ptr, event: Ptr) -> MinusOne;
                rdma_ack_cm_event(event: Ptr) -> MinusOne;
                rdma_get_devices(count: Ptr) -> Null;
                rdma_free_devices(list: Ptr) -> Never;
                rdma_getaddrinfo(node: Ptr, service: Ptr, hints: Ptr, found: Ptr) -> MinusOne;
                rdma_freeaddrinfo(found: Ptr) -> Never;
                rdma_init_qp_attr(id: Id, attr: Ptr, mask: Ptr) -> MinusOne;
                rdma_set_option(id: Id, level: i32, name: i32, value: Ptr, length: usize) -> MinusOne;
                rdma_migrate_id(id: Id, channel: Ptr) -> MinusOne;
                rdma_set_local_ece(id: Id, ece: Ptr) -> MinusOne;
                rdma_get_remote_ece(id: Id, ece: Ptr) -> MinusOne;
            }
            operations {
                ibv_alloc_mw = alloc_mw(pd: Ptr, kind: u32) -> Null;
                ibv_bind_mw = bind_mw(qp: Qp, mw: Ptr, bind: Ptr) -> Number;
                ibv_dealloc_mw = dealloc_mw(mw: Ptr) -> Number;
                ibv_poll_cq = poll_cq(cq: Ptr, room: i32, wc: Ptr) -> MinusOne;
                ibv_req_notify_cq = req_notify_cq(cq: Ptr, solicited: i32) -> Number;
                ibv_post_srq_recv = post_srq_recv(srq: Ptr, wr: Ptr, bad: Ptr) -> Number;
                ibv_post_send = post_send(qp: Qp, wr: Ptr, bad: Ptr) -> Number;
                ibv_post_recv = post_recv(qp: Qp, wr: Ptr, bad: Ptr) -> Number;
            }
            extended {
                ibv_query_port = query_port(context: Ptr, port: u8, attr: Ptr, length: usize) -> Number;
                ibv_create_cq_ex = create_cq_ex(context: Ptr, attr: Ptr) -> Null;
                ibv_query_device_ex = query_device_ex(context: Ptr, input: Ptr, attr: Ptr, length: usize) -> Number;
                ibv_create_qp_ex = create_qp_ex(context: Ptr, attr: Ptr) -> Null;
                ibv_create_srq_ex = create_srq_ex(context: Ptr, attr: Ptr) -> Null;
            }
        }
    };
}

/// Names that the headers turn into other calls, and those.
const INLINE: [(&str, &str); 16] = [
    // A macro of verbs.h chooses; both are the one that programs write.
    ("ibv_reg_mr_iova2", "ibv_reg_mr"),
    ("rdma_reg_msgs", "ibv_reg_mr"),
    ("rdma_reg_read", "ibv_reg_mr"),
    ("rdma_reg_write", "ibv_reg_mr"),
    ("rdma_dereg_mr", "ibv_dereg_mr"),
    ("rdma_post_recvv", "ibv_post_recv"),
    ("rdma_post_recv", "ibv_post_recv"),
    ("rdma_post_sendv", "ibv_post_send"),
    ("rdma_post_send", "ibv_post_send"),
    ("rdma_post_readv", "ibv_post_send"),
    ("rdma_post_read", "ibv_post_send"),
    ("rdma_post_writev", "ibv_post_send"),
    ("rdma_post_write", "ibv_post_send"),
    ("rdma_post_ud_send", "ibv_post_send"),
    ("rdma_get_send_comp", "ibv_poll_cq"),
    ("rdma_get_recv_comp", "ibv_poll_cq"),
];

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

macro_rules! list {
    (
        exported { $($name:ident($($arg:ident: $type:ident),*) -> $fails:ident;)* }
        operations {
            $($operation:ident = $field:ident($($o_arg:ident: $o_type:ident),*) -> $o_fails:ident;)*
        }
        extended {
            $($extended:ident = $e_field:ident($($e_arg:ident: $e_type:ident),*) -> $e_fails:ident;)*
        }
    ) => {
        &[
            $(Verb {
                name: stringify!($name),
                fails: Fails::$fails,
                has_queue_pair: false
                    $(|| same(stringify!($type), "Qp") || same(stringify!($type), "Id"))*,
            },)*
            $(Verb {
                name: stringify!($operation),
                fails: Fails::$o_fails,
                has_queue_pair: false $(|| same(stringify!($o_type), "Qp"))*,
            },)*
            $(Verb {
                name: stringify!($extended),
                fails: Fails::$e_fails,
                has_queue_pair: false $(|| same(stringify!($e_type), "Qp"))*,
            },)*
        ]
    };
}

impl Verb {
    /// All of them. `ibv_reg_mr_iova2` is one of them and counts as `ibv_reg_mr`, and there are two
    /// `ibv_query_port`: programs in C call the second.
    pub const ALL: &[Self] = each_verb!(list);

    /// Where in [`Verb::ALL`] the calls of a function are counted; the table has to have it.
    pub const fn index_of(name: &str) -> usize {
        let name = if same(name, "ibv_reg_mr_iova2") { "ibv_reg_mr" } else { name };
        let mut index = 0;
        while !same(Self::ALL[index].name, name) {
            index += 1;
        }
        index
    }

    /// Whether 0 is all that a program needs of it.
    pub(super) fn can_be_skipped(&self) -> bool {
        const POSTING: [&str; 3] = ["ibv_post_send", "ibv_post_recv", "ibv_post_srq_recv"];
        const LOOKING: [&str; 2] = ["ibv_poll_cq", "ibv_req_notify_cq"];
        POSTING.contains(&self.name) || LOOKING.contains(&self.name)
    }

    /// The one with a name; an inline function is found by the call that it makes.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        let made = INLINE.iter().find(|(inline, _)| *inline == name);
        let name = made.map_or(name, |(_, call)| call);
        Self::ALL.iter().find(|verb| verb.name == name)
    }

    /// Those that can be named.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let is_counted = |(index, verb): &(usize, &Self)| Self::index_of(verb.name) == *index;
        Self::ALL.iter().enumerate().filter(is_counted).map(|(_, verb)| verb.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let names: Vec<_> = Verb::names().collect();
        assert_eq!(names.len(), Verb::ALL.len() - 2, "{names:?}");
        assert_eq!(Verb::index_of("ibv_reg_mr_iova2"), Verb::index_of("ibv_reg_mr"));
    }

    #[test]
    fn inline_functions_are_found_by_what_they_call() {
        for (inline, call) in INLINE {
            assert_eq!(Verb::named(inline).map(|verb| verb.name), Some(call), "{inline}");
        }
        assert_eq!(Verb::named("ibv_nothing"), None);
    }
}
