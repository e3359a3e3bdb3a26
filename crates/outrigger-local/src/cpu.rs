//! What this machine's processor lacks for running a model.
//!
//! The standard library's `is_x86_feature_detected!` answers yes without asking when a feature was
//! compiled in, so the processor itself is asked here.

/// The CPU features that the fast kernels are compiled for (x86-64-v3) and this processor lacks.
///
/// A program that was built with them does not run on such a processor at all, so this is worth
/// asking before anything else. Empty on other architectures.
pub fn missing_features() -> Vec<&'static str> {
    imp::missing_features()
}

/// Whether this program was built without those features. It runs then, several times slower.
pub fn is_slow_build() -> bool {
    cfg!(any(target_arch = "x86", target_arch = "x86_64"))
        && !cfg!(all(
            target_feature = "avx2",
            target_feature = "fma",
            target_feature = "f16c",
            target_feature = "bmi2"
        ))
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod imp {
    pub(super) fn missing_features() -> Vec<&'static str> {
        let cpu = raw_cpuid::CpuId::new();
        let basic = cpu.get_feature_info();
        let extended = cpu.get_extended_feature_info();
        let has = [
            (
                "AVX2",
                extended
                    .as_ref()
                    .is_some_and(raw_cpuid::ExtendedFeatures::has_avx2),
            ),
            (
                "FMA",
                basic.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_fma),
            ),
            (
                "F16C",
                basic.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_f16c),
            ),
            (
                "BMI2",
                extended
                    .as_ref()
                    .is_some_and(raw_cpuid::ExtendedFeatures::has_bmi2),
            ),
        ];
        has.into_iter()
            .filter(|(_, has)| !has)
            .map(|(name, _)| name)
            .collect()
    }
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
mod imp {
    pub(super) fn missing_features() -> Vec<&'static str> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    /// This test runs, so whatever was compiled in is there.
    #[test]
    fn a_processor_that_runs_this_build_lacks_nothing_of_it() {
        if !super::is_slow_build() {
            assert_eq!(super::missing_features(), Vec::<&str>::new());
        }
    }
}
