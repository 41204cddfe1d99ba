#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    soft_hca_roce::fuzz::transport(data);
    soft_hca_roce::fuzz::snapshot(data);
});
