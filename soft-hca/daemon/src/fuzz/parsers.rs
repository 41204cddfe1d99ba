//! Everything that is taken from bytes or text: what is refused is refused with the right error,
//! what is taken is the same after a way back, and nothing is read beyond its end.

use std::path::{Component, Path};

use soft_hca_core::config::FabricName;
use soft_hca_core::device_file::DeviceFile;
use soft_hca_core::device_spec::{self, DeviceName};
use soft_hca_core::engine::Async;
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc;
use soft_hca_core::uapi::ucma::{
    Accept, Bind, ConnParam, Connect, CreateId, InitQpAttr, JoinMcast, Listen, MigrateId, Notify,
    Query, Reject, ResolveAddr, ResolveRoute, SetOption, Sockaddr, Target, abi, disconnect_id,
};
use soft_hca_core::uapi::uverbs::Command;
use soft_hca_core::uapi::uverbs::request::{self, Request};
use soft_hca_fault::Plan;
use zerocopy::FromBytes;

/// Bytes of any message, command or name.
pub fn run(data: &[u8]) {
    messages(data);
    uverbs(data);
    rdma_cm(data);
    if let Ok(text) = std::str::from_utf8(data) {
        names(text);
    }
}

fn messages(data: &[u8]) {
    // A number may have more bytes than it needs, so a message may have more than its value's.
    if let Some(request) = only(rpc::Request::decode(data), Errno::EINVAL) {
        assert!(request.encode().len() <= data.len(), "{request:?}");
        assert_eq!(rpc::Request::decode(&request.encode()), Ok(request));
    }
    if let Some(reply) = only(rpc::Reply::decode(data), Errno::EINVAL) {
        assert!(reply.encode().len() <= data.len(), "{reply:?}");
        let again = rpc::Reply::decode(&reply.encode());
        if let (rpc::Reply(Err(error)), Ok(rpc::Reply(Err(again)))) = (&reply, &again) {
            assert!(error.number() > 0);
            assert_eq!((again.reason(), again.values()), (error.reason(), error.values()));
        }
        assert_eq!(again, Ok(reply));
    }
    if let Some([kind, index]) = data.first_chunk::<8>().map(words) {
        if let Some(what) = Async::from_words(kind, index) {
            assert_eq!(what.to_words(), (kind, index));
        }
    }
}

fn words(bytes: &[u8; 8]) -> [u32; 2] {
    let long = u64::from_le_bytes(*bytes);
    [long as u32, (long >> 32) as u32]
}

fn uverbs(data: &[u8]) {
    let Some(command) = only(Command::parse(data), Errno::EINVAL) else { return };
    assert!(data.ends_with(command.payload));
    let is_answerable = data.len() >= 16;
    assert_eq!(command.response().is_ok(), is_answerable);
    macro_rules! check {
        ($($request:ident),*) => {
            $( check_request::<request::$request>(data, &command); )*
        };
    }
    check!(
        GetContext,
        QueryDevice,
        ExQueryDevice,
        QueryPort,
        AllocPd,
        DeallocPd,
        RegMr,
        DeregMr,
        AllocMw,
        DeallocMw,
        CreateAh,
        DestroyAh,
        CreateCompChannel,
        CreateCq,
        ExCreateCq,
        ResizeCq,
        DestroyCq,
        ReqNotifyCq,
        CreateQp,
        ExCreateQp,
        QueryQp,
        ModifyQp,
        DestroyQp,
        PostSend,
        AttachMcast,
        DetachMcast,
        CreateSrq,
        ModifySrq,
        QuerySrq,
        DestroySrq
    );
}

/// A command's request is there if it is long enough, and put back it is what was written.
fn check_request<R: Request>(data: &[u8], command: &Command<'_>) {
    if command.number != R::NUMBER {
        return;
    }
    match only(command.request::<R>(), Errno::EINVAL) {
        Some(request) => assert_eq!(command.with_request(data, &request), data),
        None => assert!(command.payload.len() < R::REQUIRED),
    }
}

/// The value, or nothing if it was refused, which has to be with this error.
fn only<T>(outcome: Result<T>, refusal: Errno) -> Option<T> {
    outcome.inspect_err(|error| assert_eq!(*error, refusal)).ok()
}

fn rdma_cm(data: &[u8]) {
    // Requests that are short of their size are refused; of whole ones only those that make no sense.
    let sizes = [
        (CreateId::decode(data).is_ok(), 24),
        (Target::decode(data).is_ok(), 16),
        (disconnect_id(data).is_ok(), 4),
        (ResolveRoute::decode(data).is_ok(), 8),
        (Listen::decode(data).is_ok(), 8),
        (Connect::decode(data).is_ok(), 280),
        (Accept::decode(data).is_ok(), 288),
        (Reject::decode(data).is_ok(), 264),
        (InitQpAttr::decode(data).is_ok(), 16),
        (Notify::decode(data).is_ok(), 8),
        (MigrateId::decode(data).is_ok(), 16),
        (Query::decode(data).is_ok(), 16),
    ];
    for (i, (is_taken, size)) in sizes.into_iter().enumerate() {
        assert_eq!(is_taken, data.len() >= size, "request {i}");
    }
    let addresses = [
        only(Bind::decode(data), Errno::EINVAL).map(|bind| bind.address),
        only(Bind::decode_ip(data), Errno::EINVAL).map(|bind| bind.address),
        only(ResolveAddr::decode(data), Errno::EINVAL).map(|resolve| resolve.dst),
        only(ResolveAddr::decode_ip(data), Errno::EINVAL).map(|resolve| resolve.dst),
        only(JoinMcast::decode(data), Errno::EINVAL).map(|join| join.address),
        only(JoinMcast::decode_ip(data), Errno::EINVAL).map(|join| join.address),
        Sockaddr::decode(data),
    ];
    addresses.into_iter().flatten().for_each(check_address);
    match SetOption::decode(data) {
        Ok(option) => assert!(data[size_of::<abi::SetOption>()..].starts_with(&option.value)),
        Err(error) if data.len() < size_of::<abi::SetOption>() => assert_eq!(error, Errno::EINVAL),
        Err(error) => assert_eq!(error, Errno::EFAULT),
    }
    if let Ok((param, _)) = abi::ConnParam::read_from_prefix(data) {
        let param = ConnParam::from(&param);
        assert_eq!(ConnParam::from(&abi::ConnParam::from(&param)), param);
    }
}

fn check_address(address: Sockaddr) {
    let mut bytes = [0xff; 64];
    address.encode(&mut bytes);
    assert!(bytes[address.size()..].iter().all(|byte| *byte == 0xff), "{address:?}");
    assert_eq!(Sockaddr::decode(&bytes[..address.size()]), Some(address));
    assert_eq!(Sockaddr::decode(&bytes[..address.size() - 1]), None);
    assert_eq!(address.with_port(7471).port(), 7471);
    assert!(address.same_family(&address.unset_of_family()));
    assert!(address.unset_of_family().is_unspecified());
}

fn names(text: &str) {
    if let Ok(name) = text.parse::<FabricName>() {
        assert_eq!(name.to_string(), text);
        // One folder of its own, which is not hidden, wherever it is put.
        let mut parts = Path::new(text).components();
        assert_eq!(parts.next(), Some(Component::Normal(text.as_ref())));
        assert_eq!(parts.next(), None);
        assert!(text.len() <= 32 && !text.starts_with('.'));
    }
    if let Ok(name) = text.parse::<DeviceName>() {
        assert_eq!(name.to_string(), text);
        assert!(text.starts_with("rxe") && text.len() <= 32 && !text.contains(['/', '.']));
    }
    if let Ok(specs) = device_spec::split(text) {
        assert_eq!(device_spec::split(&device_spec::join(&specs)).ok(), Some(specs));
    }
    if let Ok(plan) = text.parse::<Plan>() {
        assert_eq!(plan.to_string().parse(), Ok(plan));
    }
    if let Some(device) = DeviceFile::of_path(text.as_bytes()) {
        assert!(text.starts_with("/dev/infiniband/") && device.number().0 > 0);
    }
}
