//! Asynchronous events, and events of the connection manager.

words! {
    /// Asynchronous events (`enum ibv_event_type`).
    EventType, event, "IBV_EVENT_":
    CQ_ERR = 0,
    QP_FATAL = 1,
    QP_REQ_ERR = 2,
    QP_ACCESS_ERR = 3,
    COMM_EST = 4,
    SQ_DRAINED = 5,
    PATH_MIG = 6,
    PATH_MIG_ERR = 7,
    DEVICE_FATAL = 8,
    PORT_ACTIVE = 9,
    PORT_ERR = 10,
    LID_CHANGE = 11,
    PKEY_CHANGE = 12,
    SM_CHANGE = 13,
    SRQ_ERR = 14,
    SRQ_LIMIT_REACHED = 15,
    QP_LAST_WQE_REACHED = 16,
    CLIENT_REREGISTER = 17,
    GID_CHANGE = 18,
    WQ_FATAL = 19,
}

words! {
    /// Events of the connection manager (`enum rdma_cm_event_type`).
    CmEvent, cm_event, "RDMA_CM_EVENT_":
    ADDR_RESOLVED = 0,
    ADDR_ERROR = 1,
    ROUTE_RESOLVED = 2,
    ROUTE_ERROR = 3,
    CONNECT_REQUEST = 4,
    CONNECT_RESPONSE = 5,
    CONNECT_ERROR = 6,
    UNREACHABLE = 7,
    REJECTED = 8,
    ESTABLISHED = 9,
    DISCONNECTED = 10,
    DEVICE_REMOVAL = 11,
    MULTICAST_JOIN = 12,
    MULTICAST_ERROR = 13,
    ADDR_CHANGE = 14,
    TIMEWAIT_EXIT = 15,
    ADDRINFO_RESOLVED = 16,
    ADDRINFO_ERROR = 17,
    USER = 18,
    INTERNAL = 19,
}
