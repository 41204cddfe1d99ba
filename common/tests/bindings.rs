//! The bindings that the examples are built with, against the headers that they are made from: the C
//! compiler is given an assertion for each structure's size, each field's place, each number and the
//! signedness of each enumeration. The library that reads the headers for the bindings (libclang) comes in many
//! releases.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use rdma_sys::*;

/// Assertions, in C.
struct Assertions(String);

impl Assertions {
    fn is(&mut self, what: &str, value: impl Into<i128>) {
        let value = value.into();
        writeln!(self.0, "_Static_assert({what} == {value}, \"{what} is {value} here\");").unwrap();
    }

    fn size(&mut self, what: &str, size: usize) {
        self.is(what, size as i128);
    }
}

/// Bytes of what a field holds.
const fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Structures and their fields; a name that is reserved in Rust ends with an underscore there.
macro_rules! structures {
    ($assertions:ident: $($name:ident { $($field:ident)* })*) => { $(
        let c = concat!("struct ", stringify!($name));
        $assertions.size(&format!("sizeof({c})"), size_of::<$name>());
        $(
            let field = stringify!($field).trim_end_matches('_');
            $assertions.size(&format!("offsetof({c}, {field})"), offset_of!($name, $field));
            let size = size_of_field(|whole: &$name| &whole.$field);
            $assertions.size(&format!("sizeof((({c} *)0)->{field})"), size);
        )*
    )* };
}

/// Enumerations and numbers of theirs, as modules of constants.
macro_rules! modules {
    ($assertions:ident: $($name:ident { $($number:ident)* })*) => { $(
        let c = concat!("enum ", stringify!($name));
        let is_signed = <$name::Type>::MIN != 0;
        $assertions.is(&format!("(({c})-1 < 0)"), is_signed);
        $assertions.size(&format!("sizeof({c})"), size_of::<$name::Type>());
        $( $assertions.is(stringify!($number), $name::$number); )*
    )* };
}

/// Enumerations of bits.
macro_rules! bits {
    ($assertions:ident: $($name:ident { $($number:ident)* })*) => { $(
        let c = concat!("enum ", stringify!($name));
        let is_signed = !$name(0).0 < $name(0).0;
        $assertions.is(&format!("(({c})-1 < 0)"), is_signed);
        $assertions.size(&format!("sizeof({c})"), size_of::<$name>());
        $( $assertions.is(stringify!($number), $name::$number.0); )*
    )* };
}

fn of_verbs(all: &mut Assertions) {
    structures! { all:
        ibv_sge { addr length lkey }
        ibv_recv_wr { wr_id next sg_list num_sge }
        ibv_send_wr { wr_id next sg_list num_sge opcode send_flags wr }
        ibv_wc {
            wr_id status opcode vendor_err byte_len qp_num src_qp wc_flags pkey_index slid sl
            dlid_path_bits
        }
        ibv_mr { context pd addr length handle lkey rkey }
        ibv_pd { context handle }
        ibv_comp_channel { context fd refcnt }
        ibv_cq { context channel cq_context handle cqe comp_events_completed async_events_completed }
        ibv_qp { context qp_context pd send_cq recv_cq srq handle qp_num state qp_type events_completed }
        ibv_srq { context srq_context pd handle events_completed }
        ibv_qp_cap { max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data }
        ibv_qp_init_attr { qp_context send_cq recv_cq srq cap qp_type sq_sig_all }
        ibv_srq_attr { max_wr max_sge srq_limit }
        ibv_srq_init_attr { srq_context attr }
        ibv_global_route { dgid flow_label sgid_index hop_limit traffic_class }
        ibv_ah_attr { grh dlid sl src_path_bits static_rate is_global port_num }
        ibv_grh { version_tclass_flow paylen next_hdr hop_limit sgid dgid }
        ibv_qp_attr {
            qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num
            qp_access_flags cap ah_attr alt_ah_attr pkey_index alt_pkey_index en_sqd_async_notify
            sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt
            rnr_retry alt_port_num alt_timeout rate_limit
        }
        ibv_device_attr {
            fw_ver node_guid sys_image_guid max_mr_size vendor_id max_qp max_qp_wr device_cap_flags
            max_sge max_cq max_cqe max_mr max_pd max_qp_rd_atom atomic_cap max_mcast_grp max_ah
            max_srq max_srq_wr max_srq_sge max_pkeys phys_port_cnt
        }
        ibv_port_attr {
            state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz lid sm_lid lmc
            active_width active_speed phys_state link_layer flags port_cap_flags2
        }
        ibv_async_event { element event_type }
        ibv_device { node_type transport_type name dev_name dev_path ibdev_path }
        ibv_context_ops { poll_cq req_notify_cq post_srq_recv post_send post_recv }
        ibv_context { device ops cmd_fd async_fd num_comp_vectors }
    }
    modules! { all:
        ibv_wc_status {
            IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_REM_ACCESS_ERR
            IBV_WC_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR IBV_WC_GENERAL_ERR
        }
        ibv_wc_opcode {
            IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP IBV_WC_FETCH_ADD
            IBV_WC_RECV IBV_WC_RECV_RDMA_WITH_IMM
        }
        ibv_wr_opcode {
            IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM
            IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD
        }
        ibv_qp_type { IBV_QPT_RC IBV_QPT_UC IBV_QPT_UD }
        ibv_qp_state { IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_ERR }
        ibv_mig_state { IBV_MIG_MIGRATED IBV_MIG_REARM IBV_MIG_ARMED }
        ibv_mtu { IBV_MTU_256 IBV_MTU_1024 IBV_MTU_4096 }
        ibv_port_state { IBV_PORT_NOP IBV_PORT_ACTIVE }
        ibv_atomic_cap { IBV_ATOMIC_NONE IBV_ATOMIC_HCA IBV_ATOMIC_GLOB }
        // Of these two, a number is negative.
        ibv_node_type { IBV_NODE_UNKNOWN IBV_NODE_CA IBV_NODE_SWITCH IBV_NODE_ROUTER IBV_NODE_RNIC }
        ibv_transport_type { IBV_TRANSPORT_UNKNOWN IBV_TRANSPORT_IB IBV_TRANSPORT_IWARP }
    }
    bits! { all:
        ibv_access_flags {
            IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
            IBV_ACCESS_REMOTE_ATOMIC
        }
        ibv_send_flags { IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE }
        ibv_wc_flags { IBV_WC_GRH IBV_WC_WITH_IMM }
        ibv_device_cap_flags { IBV_DEVICE_AUTO_PATH_MIG }
        ibv_qp_attr_mask {
            IBV_QP_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_AV IBV_QP_PATH_MTU
            IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC
            IBV_QP_ALT_PATH IBV_QP_MIN_RNR_TIMER IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC
            IBV_QP_PATH_MIG_STATE IBV_QP_DEST_QPN
        }
    }
    all.size("sizeof(enum ibv_event_type)", size_of::<ibv_event_type>());
    all.is("IBV_EVENT_PATH_MIG", ibv_event_type::IBV_EVENT_PATH_MIG as u32);
    all.is("IBV_EVENT_PATH_MIG_ERR", ibv_event_type::IBV_EVENT_PATH_MIG_ERR as u32);
}

fn of_the_connection_manager(all: &mut Assertions) {
    structures! { all:
        rdma_event_channel { fd }
        rdma_addr { addr }
        rdma_route { addr path_rec num_paths }
        rdma_cm_id {
            verbs channel context qp route ps port_num event send_cq_channel send_cq recv_cq_channel
            recv_cq srq pd qp_type
        }
        rdma_conn_param {
            private_data private_data_len responder_resources initiator_depth flow_control
            retry_count rnr_retry_count srq qp_num
        }
        rdma_ud_param { private_data private_data_len ah_attr qp_num qkey }
        rdma_cm_event { id listen_id event status param }
        rdma_addrinfo {
            ai_flags ai_family ai_qp_type ai_port_space ai_src_len ai_dst_len ai_src_addr
            ai_dst_addr ai_route_len ai_route ai_connect_len ai_connect ai_next
        }
    }
    modules! { all:
        rdma_port_space { RDMA_PS_IPOIB RDMA_PS_TCP RDMA_PS_UDP }
        rdma_cm_event_type {
            RDMA_CM_EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_ERROR RDMA_CM_EVENT_ROUTE_RESOLVED
            RDMA_CM_EVENT_ROUTE_ERROR RDMA_CM_EVENT_CONNECT_REQUEST RDMA_CM_EVENT_CONNECT_ERROR
            RDMA_CM_EVENT_REJECTED RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED
            RDMA_CM_EVENT_MULTICAST_JOIN RDMA_CM_EVENT_MULTICAST_ERROR RDMA_CM_EVENT_TIMEWAIT_EXIT
        }
    }
}

/// Whether C code in which all of this holds can be compiled, and what the compiler says.
fn compiles(assertions: &str) -> (bool, String) {
    let mut compiler = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("#include <stddef.h>\n#include <rdma/rdma_cma.h>\n{assertions}");
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let mut all = Assertions(String::new());
    of_verbs(&mut all);
    of_the_connection_manager(&mut all);
    let (holds, said) = compiles(&all.0);
    assert!(holds, "{said}");
}

#[test]
fn a_difference_is_found() {
    let mut all = Assertions(String::new());
    all.size("sizeof(struct ibv_sge)", size_of::<ibv_sge>() + 1);
    let (holds, said) = compiles(&all.0);
    assert!(!holds && said.contains("sizeof(struct ibv_sge) is 17 here"), "{said}");
}
