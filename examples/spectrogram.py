"""A spectrogram of synthetic bird song: each warp of threads transforms one stretch of it.

``python examples/spectrogram.py`` runs on every device present. ``docs/gallery.py`` draws it.
"""

import numpy as np

import kspec

RATE = 16000  # samples in a second
SIZE = 512  # samples of a stretch, a power of two
HOP = 128  # samples from the start of a stretch to that of the next
# Start, duration, first and last frequency of each note, in s and Hz: two whistles and a trill.
NOTES = [(0.1, 0.35, 3300, 3100), (0.5, 0.45, 2500, 2200)]
NOTES += [(1.05 + 0.08 * k, 0.075, 3900 - 40 * k, 1600 + 160 * k) for k in range(10)]

# A fast Fourier transform with radix 2, in place: the output of a warp is in shared memory.
fourier = kspec.ElementwiseKernel(
    "raw float32 sound, int32 hop",
    "complex64 spectrum[n]",
    """
    for (int k = _thread; k < n; k += _threads) {
      const float sine = sinpif(float(k) / n);  // Hann's window is its square
      const int reversed = __brev(k) >> (__clz(n) + 1);  // the bits of k
      spectrum(reversed) = sine * sine * sound[i * hop + k];
    }
    for (int half = 1; half < n; half *= 2) {
      _sync();
      for (int k = _thread; k < n / 2; k += _threads) {
        const int turn = k % half, even = 2 * k - turn, odd = even + half;
        float sine, cosine;
        sincospif(-float(turn) / half, &sine, &cosine);
        const complex<float> a = spectrum(even), b = complex<float>(cosine, sine) * spectrum(odd);
        spectrum(even) = a + b;
        spectrum(odd) = a - b;
      }
    }
    """,
    "fourier",
    threads="warp",
    sizes={"n": [SIZE]},
)


def song():
    """Return two seconds of whistles with overtones, and a little noise."""
    time = np.arange(2 * RATE) / RATE
    sound = np.random.default_rng(0).normal(scale=0.001, size=time.size)
    for start, duration, first, last in NOTES:
        part = np.clip((time - start) / duration, 0, 1)
        phase = 2 * np.pi * np.cumsum(first + (last - first) * part) / RATE
        sound += np.sin(np.pi * part) ** 2 * (np.sin(phase) + 0.2 * np.sin(2 * phase))
    return sound.astype(np.float32)


def spectrogram(sound):
    """Return the spectrum of each stretch, from 0 to half the sampling rate, on its device."""
    spectra = fourier(sound, HOP, size=(sound.size - SIZE) // HOP + 1)
    return spectra[:, : SIZE // 2 + 1]


def expected(sound):
    window = np.sin(np.pi * np.arange(SIZE) / SIZE) ** 2
    stretches = np.lib.stride_tricks.sliding_window_view(sound, SIZE)[::HOP]
    return np.fft.rfft(window * stretches)


def main():
    sound = song()
    wanted = expected(sound)
    for device in kspec.devices():
        spectra = kspec.asnumpy(spectrogram(kspec.asarray(sound, device=device)))
        error = np.abs(spectra - wanted).max() / np.abs(wanted).max()
        print(f"{device}: {len(spectra)} transforms of {SIZE} samples, error {error:.0e}")
        assert error < 1e-6


if __name__ == "__main__":
    main()
