// UCB1 written by hand for a GPU: how fast could it be? One replication per thread, nine Bernoulli
// arms of mean .9 to .1. Rewards arrive at once, or in equal shares at the lags 30 .. 39: then the
// rewards of the last 64 pulls are the bits of one number. Compile with -DREAL=double or float.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <curand_kernel.h>

constexpr int ARMS = 9;

__device__ double root(double x) { return sqrt(x); }
__device__ float root(float x) { return sqrtf(x); }
__device__ double inverse_root(double x) { return rsqrt(x); }
__device__ float inverse_root(float x) { return rsqrtf(x); }
__device__ double logarithm(double x) { return log(x); }
__device__ float logarithm(float x) { return __logf(x); }

template <typename Real, bool DELAYED>
__global__ void play(int slots, unsigned long long seed, float* regret) {
  int replication = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t rng;
  curand_init(seed, replication, 0, &rng);
  Real total[ARMS], pulls[ARMS], average[ARMS], breadth[ARMS];
#pragma unroll
  for (int i = 0; i < ARMS; i++) total[i] = pulls[i] = average[i] = breadth[i] = 0;
  unsigned long long past = 0;
  Real lost = 0;
  for (int t = 0; t < slots; t++) {
    Real width = root(Real(2) * logarithm(Real(max(t, 1)))), top = -1;
    int best = 0;
    if (t < ARMS) {
      best = t;
    } else {
#pragma unroll
      for (int i = 0; i < ARMS; i++) {
        Real index = average[i] + width * breadth[i];
        if (index > top) { top = index; best = i; }
      }
    }
    unsigned reward = curand_uniform(&rng) <= .9f - .1f * best;
    Real seen = reward;
    if (DELAYED) {
      past = (past << 1) | reward;
      seen = Real(.1) * __popcll((past >> 30) & 1023ull);
    }
#pragma unroll
    for (int i = 0; i < ARMS; i++)
      if (i == best) {
        pulls[i] += 1;
        total[i] += seen;
        breadth[i] = inverse_root(pulls[i]);
        average[i] = total[i] * breadth[i] * breadth[i];
      }
    lost += Real(.1) * best;
  }
  regret[replication] = lost;
}

template <bool DELAYED>
void measure(int slots, int replications, float* device, float* host) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float milliseconds;
  for (int turn = 0; turn < 3; turn++) {
    cudaEventRecord(begin);
    play<REAL, DELAYED><<<replications / 256, 256>>>(slots, 7 + turn, device);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&milliseconds, begin, end);
  }
  cudaMemcpy(host, device, replications * sizeof(float), cudaMemcpyDeviceToHost);
  double mean = 0, variance = 0;
  for (int i = 0; i < replications; i++) mean += host[i] / replications;
  for (int i = 0; i < replications; i++) variance += (host[i] - mean) * (host[i] - mean) / replications;
  printf("%.6g %.6g %.6g\n", double(replications) * slots / milliseconds * 1e3, mean, sqrt(variance / replications));
}

int main() {
  int replications = 1 << 20, slots = 10000;
  float *device, *host = (float*)malloc(replications * sizeof(float));
  cudaMalloc(&device, replications * sizeof(float));
  measure<false>(slots, replications, device, host);
  measure<true>(slots, replications, device, host);
}
