//! The base transport header. IBTA volume 1, 9.2; `rxe_hdr.h`, `struct rxe_bth`.
