"""The table: one expression a line, and the operands that its names stand for.

The same expression is evaluated with CuPy's modules and with SciPy's, so that the table can be checked
where there is no GPU: ``python -m tests.cupyx --scipy``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

NDIMAGE = """
ndimage.correlate(image, weights)
ndimage.correlate(small, weights.astype('float32'), mode='wrap')
ndimage.convolve(image, weights, mode='constant', cval=1.5)
ndimage.convolve(volume, cube, mode='mirror', origin=1)
ndimage.convolve(waves, weights)
ndimage.correlate1d(image, taps, axis=0)
ndimage.convolve1d(counts, taps, axis=1, mode='nearest')
ndimage.uniform_filter1d(image, 5)
ndimage.uniform_filter(volume, (3, 1, 5))
ndimage.gaussian_filter1d(image, 1.5, order=1)
ndimage.gaussian_filter(image, 1.5)
ndimage.gaussian_filter(small, (2, 0.7), mode='wrap', truncate=3.0)
ndimage.prewitt(image, axis=0)
ndimage.sobel(volume, axis=1)
ndimage.laplace(image)
ndimage.gaussian_laplace(image, 1.2)
ndimage.gaussian_gradient_magnitude(image, 1.1)
ndimage.minimum_filter(image, size=3)
ndimage.maximum_filter(counts, footprint=cross)
ndimage.minimum_filter1d(image, 4, axis=0)
ndimage.maximum_filter1d(counts, 5, mode='constant', cval=7)
ndimage.median_filter(image, size=(3, 5))
ndimage.median_filter(bytes_, size=3)
ndimage.rank_filter(image, 2, footprint=cross)
ndimage.percentile_filter(volume, 30, size=3)
ndimage.generic_filter(image, spread, size=3)
ndimage.generic_filter(image, weighted, size=(3, 2), mode='wrap')
ndimage.generic_filter1d(image, running, 5)
ndimage.fourier_gaussian(spectrum, 2.0)
ndimage.fourier_uniform(spectrum, (3, 5))
ndimage.fourier_shift(spectrum, (1.5, -2))
ndimage.fourier_ellipsoid(spectrum, 3.0)
ndimage.affine_transform(image, matrix, offset=(1.5, -2), order=1)
ndimage.affine_transform(image, matrix, order=3, mode='mirror')
ndimage.map_coordinates(image, coordinates, order=1)
ndimage.map_coordinates(image, coordinates, order=5, mode='grid-wrap')
ndimage.map_coordinates(waves, coordinates, order=3)
ndimage.rotate(image, 30, order=1)
ndimage.rotate(small, -17, reshape=False, order=3, mode='nearest')
ndimage.shift(volume, (0.5, -1.2, 2), order=2)
ndimage.shift(counts, 1.7, order=0)
ndimage.zoom(image, 1.7, order=3)
ndimage.zoom(volume, (2, 0.5, 1), order=1, grid_mode=True, mode='grid-constant')
ndimage.spline_filter(image, order=3)
ndimage.spline_filter1d(image, order=4, axis=0, mode='reflect')
ndimage.label(mask)
ndimage.label(blobs, structure=np.ones((3, 3, 3)))
ndimage.sum_labels(image, labels, np.arange(5))
ndimage.mean(image, labels, np.arange(1, 4))
ndimage.variance(image, labels, np.arange(5))
ndimage.standard_deviation(counts, labels, np.arange(5))
ndimage.minimum(image, labels, np.arange(5))
ndimage.maximum(counts, labels, np.arange(5))
ndimage.median(image, labels, np.arange(5))
ndimage.minimum_position(image, labels, np.arange(1, 5))
ndimage.maximum_position(image, labels, np.arange(1, 5))
ndimage.extrema(image, labels, np.arange(1, 5))
ndimage.center_of_mass(image, labels, np.arange(1, 5))
ndimage.histogram(image, -2, 2, 8, labels, np.arange(1, 4))
ndimage.labeled_comprehension(image, labels, np.arange(1, 4), np.sum, float, 0.0)
ndimage.binary_erosion(mask)
ndimage.binary_dilation(mask, iterations=2, brute_force=True)
ndimage.binary_opening(mask, structure=cross)
ndimage.binary_closing(blobs)
ndimage.binary_hit_or_miss(mask, cross)
ndimage.binary_fill_holes(mask)
ndimage.binary_propagation(mask & (image > 0), mask=mask)
ndimage.grey_erosion(image, size=(3, 3))
ndimage.grey_dilation(counts, footprint=cross)
ndimage.grey_opening(image, size=(2, 3))
ndimage.grey_closing(volume, size=3)
ndimage.morphological_gradient(image, size=3)
ndimage.morphological_laplace(image, size=3)
ndimage.white_tophat(image, size=3)
ndimage.black_tophat(counts, size=(3, 2))
ndimage.distance_transform_edt(mask)
ndimage.distance_transform_edt(blobs, sampling=(1, 2, 0.5), return_indices=False)
"""

SIGNAL = """
signal.convolve(sound, taps, method='direct')
signal.convolve(tones[0], taps.astype('float32'), mode='same', method='direct')
signal.correlate(sound, taps, mode='valid', method='direct')
signal.fftconvolve(sound, taps, mode='same')
signal.oaconvolve(sound, taps)
signal.convolve2d(image, weights, boundary='symm')
signal.correlate2d(image, weights, mode='same', boundary='wrap')
signal.convolve2d(waves, weights, mode='valid')
signal.wiener(image, (3, 3))
signal.order_filter(image, np.ones((3, 3)), 4)
signal.medfilt(image, 3)
signal.medfilt2d(small, 5)
signal.lfilter(numerator, denominator, sound)
signal.lfilter(numerator, denominator, rows, axis=0)
signal.lfilter(numerator.astype('float32'), denominator.astype('float32'), sound.astype('float32'))
signal.lfilter(taps, np.asarray([1.0]), rows)
signal.lfilter(numerator, denominator, sound, zi=signal.lfilter_zi(numerator, denominator) * 0.3)
signal.filtfilt(numerator, denominator, sound)
signal.sosfilt(sections, sound)
signal.sosfilt(sections, rows.astype('float32'), axis=1)
signal.sosfiltfilt(sections, sound)
signal.deconvolve(signal.convolve(sound, np.asarray([2.0, 0.5]), method='direct'), np.asarray([2.0, 0.5]))[0]
signal.detrend(rows, type='linear')
signal.hilbert(sound)
signal.resample(sound, 100)
signal.resample_poly(sound, 3, 2)
signal.decimate(sound, 4, ftype='fir')
signal.upfirdn(taps, sound, 3, 2)
signal.upfirdn(taps, rows, 2, 3, axis=0, mode='constant')
signal.upfirdn(taps, tones, 1, 2)
signal.savgol_filter(sound, 11, 3)
signal.savgol_filter(rows, 7, 2, deriv=1, mode='mirror')
signal.sepfir2d(image, taps, taps[4:13])
signal.cspline1d(sound)
signal.cspline1d(sound, 2.0)
signal.qspline1d(sound)
signal.cspline2d(image)
signal.qspline2d(image)
signal.cspline1d_eval(sound, np.linspace(-3, 260, 91))
signal.qspline1d_eval(sound, np.linspace(-3, 260, 91))
signal.gauss_spline(np.linspace(-3, 3, 40), 3)
signal.symiirorder1(sound, 0.7, 0.3)
signal.symiirorder2(sound, 0.5, 0.8)
signal.find_peaks(sound)[0]
signal.find_peaks(sound, height=0.2, prominence=0.1, width=1, distance=3)
signal.peak_prominences(sound, signal.find_peaks(sound)[0])
signal.peak_widths(sound, signal.find_peaks(sound)[0], rel_height=0.7)
signal.argrelextrema(image, np.greater, axis=0, order=2)
signal.argrelmin(rows, axis=1)
signal.argrelmax(sound, order=3, mode='wrap')
signal.chirp(times, 2.0, 0.7, 20.0)
signal.chirp(times, 2.0, 0.7, 20.0, method='logarithmic', phi=30)
signal.chirp(times, 2.0, 0.7, 20.0, method='hyperbolic')
signal.chirp(times, 2.0, 0.7, 20.0, method='quadratic', vertex_zero=False)
signal.sawtooth(20 * times, 0.3)
signal.square(20 * times, 0.3)
signal.gausspulse(times - 0.5, 20, retquad=True, retenv=True)
signal.sweep_poly(times, np.asarray([1.0, -2.0, 3.0]))
signal.unit_impulse((5, 6), (1, 2))
signal.max_len_seq(6)
signal.morlet(40)
signal.morlet2(40, 3.0)
signal.ricker(40, 4.0)
signal.qmf(taps)
signal.cwt(sound, signal.ricker, np.arange(1, 5))
signal.firwin(31, 0.4)
signal.firwin2(31, np.asarray([0.0, 0.4, 1.0]), np.asarray([1.0, 1.0, 0.0]))
signal.firls(31, [0.0, 0.3, 0.5, 1.0], [1.0, 1.0, 0.0, 0.0])
signal.minimum_phase(taps[:9] + taps[8::-1])
signal.butter(4, 0.3)
signal.cheby1(4, 1.0, 0.3, output='sos')
signal.iirfilter(3, [0.2, 0.6], rs=30, ftype='cheby2')
signal.freqz(numerator, denominator, 64)
signal.sosfreqz(sections, 64)
signal.group_delay((numerator, denominator), 32)
signal.periodogram(sound)
signal.welch(sound, nperseg=64)
signal.csd(sound, rows[0], nperseg=64)
signal.coherence(sound, rows[0], nperseg=64)
signal.stft(sound, nperseg=64)
signal.spectrogram(sound, nperseg=64)
signal.lombscargle(times, sound, np.linspace(1, 9, 20))
signal.vectorstrength(times, 0.13)
signal.czt(sound, 40)
signal.zoom_fft(sound, 0.4, 40)
signal.windows.general_cosine(30, [0.5, 0.3, 0.2])
signal.windows.triang(31)
signal.windows.parzen(30)
signal.windows.parzen(31, sym=False)
signal.windows.bohman(30)
signal.windows.blackman(30)
signal.windows.nuttall(30)
signal.windows.flattop(30)
signal.windows.bartlett(31)
signal.windows.hann(30, sym=False)
signal.windows.tukey(40, 0.4)
signal.windows.barthann(30)
signal.windows.hamming(30)
signal.windows.kaiser(30, 8.0)
signal.windows.gaussian(30, 4.0)
signal.windows.general_gaussian(30, 1.5, 4.0)
signal.windows.chebwin(30, 60)
signal.windows.cosine(30)
signal.windows.exponential(30, tau=4.0)
signal.windows.taylor(30)
signal.windows.lanczos(30)
"""

# Of cupyx.signal, which SciPy does not have.
MORE_SIGNAL = """
more_signal.convolve1d2o(sound, weights[:, :3])
more_signal.convolve1d3o(sound, cube)
more_signal.firfilter(taps, sound)
more_signal.firfilter2(taps, sound)
more_signal.channelize_poly(sound, np.tile(taps[:16], 4), 8)
more_signal.real_cepstrum(sound)
more_signal.complex_cepstrum(sound)
more_signal.minimum_phase(sound)
more_signal.pulse_compression(tones, tones[0, :32])
more_signal.pulse_doppler(tones)
more_signal.ca_cfar(np.abs(rows), (1, 2), (1, 3))
"""

INTERPOLATE = """
interpolate.BSpline(knots, coefficients, 3)(places)
interpolate.BSpline(knots, coefficients, 3)(places, nu=1)
interpolate.BSpline(knots, coefficients, 3).derivative()(places)
interpolate.BSpline(knots, coefficients, 3).antiderivative()(places)
interpolate.BSpline(knots, coefficients, 3).integrate(0.1, 0.8)
interpolate.BSpline.design_matrix(places, knots, 3)
interpolate.make_interp_spline(nodes, heights, 3)(places)
interpolate.make_interp_spline(nodes, heights, 2)(places)
interpolate.make_interp_spline(nodes, np.stack([heights, -heights], 1), 5)(places)
interpolate.make_lsq_spline(times, sound, knots, 3)(places)
interpolate.splder((knots, np.pad(coefficients, (0, 4)), 3))
interpolate.PchipInterpolator(nodes, heights)(places)
interpolate.PchipInterpolator(nodes, heights).derivative()(places)
interpolate.Akima1DInterpolator(nodes, heights)(places)
interpolate.CubicSpline(nodes, heights)(places)
interpolate.CubicSpline(nodes, heights, bc_type='clamped').integrate(0.2, 0.7)
interpolate.CubicHermiteSpline(nodes, heights, np.cos(nodes))(places)
interpolate.PPoly(coefficients.reshape(4, 3), np.linspace(0, 1, 4))(places)
interpolate.PPoly(coefficients.reshape(4, 3), np.linspace(0, 1, 4)).antiderivative()(places)
interpolate.BPoly(coefficients.reshape(4, 3), np.linspace(0, 1, 4))(places)
interpolate.BPoly(coefficients.reshape(4, 3), np.linspace(0, 1, 4)).derivative()(places)
interpolate.NdPPoly(cells, (np.linspace(0, 1, 4), np.linspace(0, 1, 5)))(np.abs(points) % 1)
interpolate.BarycentricInterpolator(np.linspace(0, 1, 6), heights[:6])(places)
interpolate.KroghInterpolator(np.linspace(0, 1, 6), heights[:6])(places)
interpolate.interp1d(nodes, heights)(places)
interpolate.RBFInterpolator(points, values)(others)
interpolate.RBFInterpolator(points, values, kernel='gaussian', epsilon=1.5)(others)
interpolate.RBFInterpolator(points, values, kernel='cubic', smoothing=0.1)(others)
interpolate.RBFInterpolator(points, values, kernel='linear', neighbors=12)(others)
interpolate.RegularGridInterpolator((np.arange(24.0), np.arange(31.0)), image)(coordinates.T)
interpolate.RegularGridInterpolator((np.arange(24.0), np.arange(31.0)), image, method='nearest')(coordinates.T)
interpolate.RegularGridInterpolator((np.arange(24.0), np.arange(31.0)), image, method='cubic')(coordinates.T)
interpolate.RegularGridInterpolator((np.arange(24.0), np.arange(31.0)), image, method='pchip')(coordinates.T)
interpolate.interpn((np.arange(24.0), np.arange(31.0)), image, coordinates.T)
interpolate.NdBSpline((knots, knots), coefficients[:, None] * coefficients, 3)(np.abs(points) % 1)
interpolate.LinearNDInterpolator(points, values)(others * 0.4)
interpolate.CloughTocher2DInterpolator(points, values)(others * 0.4)
interpolate.NearestNDInterpolator(points, values)(others)
interpolate.UnivariateSpline(nodes, heights, s=0.5)(places)
interpolate.InterpolatedUnivariateSpline(nodes, heights)(places)
"""

SPECIAL = """
special.i0(real)
special.i0e(real)
special.i1(real)
special.i1e(real.astype('float32'))
special.j0(real)
special.j1(real)
special.k0(positive)
special.k0e(positive)
special.k1(positive)
special.k1e(positive)
special.y0(positive)
special.y1(positive)
special.yn(orders, positive)
special.spherical_yn(2, positive)
special.wright_bessel(0.5, 1.5, unit)
special.bdtr(orders, orders + 3, unit)
special.bdtrc(orders, orders + 3, unit)
special.bdtri(orders, orders + 3, unit)
special.fdtr(positive, 2.0, real * real)
special.fdtrc(positive, 2.0, real * real)
special.fdtri(positive, 2.0, unit)
special.gdtr(1.5, positive, positive)
special.gdtrc(1.5, positive, positive)
special.nbdtr(orders, 4, unit)
special.nbdtri(orders, 4, unit)
special.pdtr(orders, positive)
special.pdtrc(orders, positive)
special.pdtri(orders, unit)
special.chdtr(positive, real * real)
special.chdtrc(positive, real * real)
special.chdtri(positive, unit)
special.ndtr(real)
special.log_ndtr(real)
special.ndtri(unit)
special.logit(unit.astype('float32'))
special.expit(real)
special.log_expit(real)
special.boxcox(positive, 0.3)
special.boxcox1p(positive, unit)
special.inv_boxcox(unit, 0.3)
special.inv_boxcox1p(unit, 0.3)
special.entr(real)
special.huber(positive, real)
special.kl_div(positive, unit)
special.pseudo_huber(positive, real)
special.rel_entr(positive, unit)
special.gamma(real)
special.gammaln(real)
special.loggamma(plane)
special.gammasgn(real)
special.gammainc(positive, unit)
special.gammaincc(positive, unit)
special.gammaincinv(positive, unit)
special.gammainccinv(positive, unit)
special.beta(positive, unit)
special.betaln(positive, unit)
special.betainc(positive, positive + 1, unit)
special.betaincinv(positive, positive + 1, unit)
special.digamma(real)
special.digamma(plane)
special.rgamma(real)
special.polygamma(orders, positive)
special.multigammaln(positive + 3, 3)
special.poch(positive, 2.5)
special.erf(real)
special.erfc(real.astype('float32'))
special.erfcx(real)
special.erfinv(unit)
special.erfcinv(unit)
special.lpmv(orders, orders + 1, unit)
special.sph_harm_y(orders + 1, orders, unit, positive)
special.binom(positive, orders)
special.exp1(positive)
special.expi(real)
special.expn(orders, positive)
special.softmax(image, axis=1)
special.log_softmax(image, axis=0)
special.log_softmax(small)
special.logsumexp(image, axis=1, b=np.abs(image))
special.zeta(positive + 1.1, unit)
special.zetac(real)
special.lambertw(plane)
special.sici(real)
special.shichi(positive)
special.cbrt(real)
special.exp10(real)
special.radian(real, unit, positive)
special.cosdg(real)
special.tandg(real)
special.exprel(real)
special.cosm1(real)
special.xlogy(plane, plane)
special.xlog1py(real, unit)
special.ellipk(unit)
special.ellipkm1(unit)
special.ellipj(real, unit)
special.ellipkinc(real, unit)
special.ellipeinc(real, unit)
"""

SPARSE = """
A + B
A - 2 * B
A.multiply(B)
A.multiply(dense)
A.maximum(B)
A.minimum(B)
A.maximum(0.3)
A != B
A < B
A > 0.3
A / dense
A @ B.T
A @ vector
A @ dense.T
A.T @ A
abs(A)
A.power(2)
A.astype('float32')
A.sum()
A.sum(axis=0)
A.sum(axis=1)
A.mean(axis=1)
A.max()
A.max(axis=0)
A.min(axis=1)
A.argmax(axis=1)
A.argmin(axis=0)
A.count_nonzero()
A.diagonal()
A.diagonal(2)
A.toarray(order='F')
A.tocsc()
A.tocoo()
A.tocsc().tocsr()
C.tocoo().tocsc()
O.tocsr()
O.toarray()
D.tocsc()
D.toarray()
D.tocsr()
A[3]
A[2, 5]
A[2:9]
A[2:15:3, 1:7]
A[:, 4]
A[:, 3:9]
A[np.asarray([1, 5, 5, 2])]
A[:, np.asarray([1, 5, 2])]
A[np.asarray([1, 5, 2]), np.asarray([0, 3, 3])]
A[2:9, np.asarray([1, 5, 2])]
A[A > 0.5]
C[:, 2:6]
C[np.asarray([1, 5, 2])]
changed(A, 'setdiag', vector[:15])
changed(A, 'setdiag', 2.0, 1)
changed(A, 'eliminate_zeros')
changed(A, 'sum_duplicates')
changed(A, 'sort_indices')
changed(O, 'sum_duplicates')
changed(O, 'eliminate_zeros')
changed(O, 'setdiag', 3.0)
changed(A, '__setitem__', (slice(1, 9, 2), slice(2, 5)), 4.0)
changed(A, '__setitem__', (np.asarray([1, 4]), np.asarray([2, 3])), np.asarray([7.0, 8.0]))
changed(A, '__setitem__', 3, 0.5)
sparse.csr_matrix((A.data, A.indices, A.indptr), shape=(20, 15)).toarray()
sparse.coo_matrix((values[:9], (rows_, columns)), shape=(10, 10)).tocsr()
sparse.eye(6, k=1).toarray()
sparse.diags([vector[:5], vector[:4]], [0, 1]).toarray()
sparse.spdiags(image[:3, :8], np.asarray([0, -1, 2]), 8, 8).toarray()
sparse.bmat([[A, None], [None, B]])
sparse.hstack([A, B])
sparse.vstack([A, B])
sparse.kron(A, sparse.eye(2))
sparse.kronsum(square, square)
sparse.find(A)
sparse.tril(A)
sparse.triu(A, 1)
sparse_linalg.norm(A)
sparse_linalg.norm(A, axis=1)
sparse_linalg.matrix_power(square, 3)
sparse_linalg.cg(definite, vector[:12], atol=1e-12)[0]
sparse_linalg.gmres(definite, vector[:12], atol=1e-12)[0]
sparse_linalg.lsmr(A, np.arange(20.0))[0]
sparse_linalg.spsolve(definite, vector[:12])
abs(sparse_linalg.eigsh(definite, k=3, return_eigenvectors=False))
"""

SPATIAL = """
spatial.KDTree(points).query(others)
spatial.KDTree(points).query(others, k=4)
spatial.KDTree(points).query(others, k=3, p=1, distance_upper_bound=0.4)
spatial.KDTree(cloud).query(cloud[:9] + 0.01, k=2)
spatial.KDTree(cloud).query(cloud[:9] + 0.01, k=5, p=np.inf)
spatial.KDTree(points).query_ball_point(others, 0.5, return_sorted=True)
spatial.KDTree(points).query_ball_point(others, 0.5, return_length=True)
spatial.KDTree(points).query_pairs(0.3, output_type='ndarray')
np.sort(np.sort(spatial.Delaunay(points).simplices, axis=1), axis=0)
spatial.Delaunay(points).find_simplex(others) >= 0
"""

CALLS: dict[str, tuple[str, ...]] = {
    module: tuple(lines.strip().split("\n"))
    for module, lines in {
        "ndimage": NDIMAGE,
        "signal": SIGNAL,
        "more_signal": MORE_SIGNAL,
        "interpolate": INTERPOLATE,
        "special": SPECIAL,
        "sparse": SPARSE,
        "spatial": SPATIAL,
    }.items()
}


def operands() -> dict[str, Any]:
    """Return NumPy's arrays by name, the same ones in every process."""
    draw = np.random.default_rng(21)
    real = np.concatenate([draw.uniform(-6, 6, 37), [0.25, 1.0, 2.0]])
    return {
        "image": draw.normal(size=(24, 31)),
        "small": draw.normal(size=(12, 17)).astype("float32"),
        "volume": draw.normal(size=(9, 10, 11)),
        "waves": draw.normal(size=(12, 17)) + 1j * draw.normal(size=(12, 17)),
        "counts": draw.integers(-20, 20, (24, 31)).astype("int32"),
        "bytes_": draw.integers(0, 255, (24, 31)).astype("uint8"),
        "mask": draw.random((24, 31)) < 0.6,
        "blobs": draw.random((9, 10, 11)) < 0.4,
        "labels": draw.integers(0, 5, (24, 31)).astype("int32"),
        "weights": draw.normal(size=(3, 5)),
        "cube": draw.normal(size=(3, 3, 3)),
        "cross": np.asarray([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool),
        "taps": draw.normal(size=17),
        "matrix": np.asarray([[0.9, 0.2], [-0.15, 1.1]]),
        "coordinates": draw.uniform(0, 23, (2, 60)),
        "spectrum": draw.normal(size=(24, 31)) + 1j * draw.normal(size=(24, 31)),
        "sound": np.sin(np.linspace(0, 40, 256)) + 0.3 * draw.normal(size=256),
        "rows": draw.normal(size=(5, 256)),
        "tones": (draw.normal(size=(5, 256)) + 1j * draw.normal(size=(5, 256))).astype("complex64"),
        "times": np.sort(draw.uniform(0.001, 1, 256)),
        "numerator": np.asarray([0.2, 0.3, 0.1]),
        "denominator": np.asarray([1.0, -0.6, 0.25]),
        "sections": np.asarray([[0.2, 0.3, 0.1, 1, -0.6, 0.25], [0.5, 0.1, 0.2, 1, 0.3, 0.1]]),
        "knots": np.concatenate([[0.0] * 4, np.linspace(0, 1, 10)[1:-1], [1.0] * 4]),
        "coefficients": draw.normal(size=12),
        "cells": draw.normal(size=(3, 2, 3, 4)),
        "nodes": np.sort(draw.uniform(0, 1, 14)),
        "heights": draw.normal(size=14),
        "places": draw.uniform(0.3, 0.7, 33),
        "points": draw.uniform(-1, 1, (60, 2)),
        "others": draw.uniform(-1, 1, (21, 2)),
        "values": draw.normal(size=60),
        "cloud": draw.normal(size=(70, 5)),
        "real": real,
        "positive": np.abs(real) + 0.3,
        "unit": np.linspace(0.02, 0.98, 40),
        "plane": real + 1j * real[::-1],
        "orders": draw.integers(1, 6, 40),
        "vector": draw.normal(size=15),
        "dense": draw.uniform(1, 2, (20, 15)),
        "first": _sparse(draw, (20, 15)),
        "second": _sparse(draw, (20, 15)),
        "third": _sparse(draw, (12, 12)),
        "rows_": draw.integers(0, 10, 9),
        "columns": draw.integers(0, 10, 9),
    }


def _sparse(draw: np.random.Generator, shape: tuple[int, int]) -> Any:
    return draw.normal(size=shape) * (draw.random(shape) < 0.3)


# Operands that are made of others, by the library that is called.
DERIVED = {
    "A": "sparse.csr_matrix(first)",
    "B": "sparse.csr_matrix(second)",
    "C": "sparse.csc_matrix(first)",
    "O": "sparse.coo_matrix(first)",
    "D": "sparse.dia_matrix((rows[:2, :8], np.asarray([0, 1])), shape=(8, 8))",
    "square": "sparse.csr_matrix(third)",
    "definite": "sparse.csr_matrix(third @ third.T + 3 * np.eye(12))",
}


class Names(dict[str, Any]):
    """What expressions see; each name is made when it is asked for, so that one that fails breaks no other.

    Parameters
    ----------
    library : {"cupy", "scipy"}
        Whose modules and arrays they are.
    """

    def __init__(self, library: str) -> None:
        super().__init__(changed=_changed)
        self._library = library
        self._values = operands()

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._made(name)
        return value

    def _made(self, name: str) -> Any:
        on_cupy = self._library == "cupy"
        if name == "np":
            return importlib.import_module("cupy" if on_cupy else "numpy")
        if name in self._values:
            return self["np"].asarray(self._values[name])
        if name in DERIVED:
            return eval(DERIVED[name], {}, self)
        if name in MODULES:
            return importlib.import_module((MODULES if on_cupy else SCIPY_MODULES)[name])
        if name in FUNCTIONS:
            return FUNCTIONS[name](self["np"]) if on_cupy else SCIPY_FUNCTIONS[name]
        raise KeyError(name)


def evaluate(expression: str, library: str) -> Any:
    """Return the value of one line of the table."""
    return eval(expression, {}, Names(library))


MODULES = {
    name: f"cupyx.scipy.{name}"
    for name in ("ndimage", "signal", "interpolate", "special", "spatial", "sparse")
} | {"sparse_linalg": "cupyx.scipy.sparse.linalg"}
SCIPY_MODULES = {name: path.removeprefix("cupyx.") for name, path in MODULES.items()}
MODULES["more_signal"] = "cupyx.signal"


def _changed(thing: Any, method: str, *arguments: Any) -> Any:
    """Return `thing` after a call of a method that changes it."""
    getattr(thing, method)(*arguments)
    return thing


_SPREAD = """
template <typename T> struct spread_pair {
  T low, high;
  __device__ spread_pair() : low(1e30), high(-1e30) {}
  __device__ spread_pair(T x) : low(x), high(x) {}
  __device__ spread_pair(T a, T b) : low(a), high(b) {}
};
template <typename T> __device__ spread_pair<T> wider(const spread_pair<T>& a, const spread_pair<T>& b) {
  return spread_pair<T>(min(a.low, b.low), max(a.high, b.high));
}
"""
_WEIGHTED = """
extern "C" __global__ void weighted(const double* x, int n, double* y) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += (i + 1) * x[i];
  *y = sum;
}
"""
_RUNNING = """
extern "C" __global__ void running(const double* x, ptrdiff_t n, double* y, ptrdiff_t m) {
  for (ptrdiff_t i = 0; i < m; ++i) {
    double sum = 0;
    for (int k = 0; k < 5; ++k) sum += x[i + k];
    y[i] = sum;
  }
}
"""

# What generic filters are given: kernels, made by the classes that CuPy has at that time.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "spread": lambda cupy: cupy.ReductionKernel(
        "X x", "Y y", "spread_pair<X>(x)", "wider(a, b)", "y = a.high - a.low",
        "spread_pair<X>()", "spread", "spread_pair<X>", preamble=_SPREAD,
    ),
    "weighted": lambda cupy: cupy.RawKernel(_WEIGHTED, "weighted"),
    "running": lambda cupy: cupy.RawKernel(_RUNNING, "running"),
}  # fmt: skip


def _running(line: Any, result: Any) -> None:
    result[...] = np.convolve(line, np.ones(5), "valid")


SCIPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "spread": np.ptp,
    "weighted": lambda x: (x * (np.arange(x.size) + 1)).sum(),
    "running": _running,
}
