/* Plain loops for the options recursion, forward then backward, K known when compiled: the limit to
   compare with. `smooth_one` runs one chain [T][K]; `smooth_many` runs E chains side by side,
   [T][K][E], the innermost loop over chains so that the compiler vectorises it. */
#include <math.h>
#include <stddef.h>

void smooth_one(ptrdiff_t steps, const double *h, const double *stop, const double *stay, const double *l,
                const double *mu, double *chi, double *options, double *switches, double *continues,
                double *departs, double *log_likelihood) {
    double total = 0, product = 1;
    const double *before = mu;
    for (ptrdiff_t t = 0; t < steps; t++) {
        double leaving = 0, norm = 0, *now = chi + t * K;
        for (int k = 0; k < K; k++) leaving += stop[t * K + k] * before[k];
        for (int k = 0; k < K; k++) {
            now[k] = l[t * K + k] * (stay[t * K + k] * before[k] + h[t * K + k] * leaving);
            norm += now[k];
        }
        double inverse = 1 / norm;
        for (int k = 0; k < K; k++) now[k] *= inverse;
        product *= norm;
        if (t % 16 == 15) { total += log(product); product = 1; }
        before = now;
    }
    *log_likelihood = total + log(product);
    double message[K], weight[K];
    for (int k = 0; k < K; k++) message[k] = 1;
    for (ptrdiff_t t = steps - 1; t >= 0; t--) {
        const double *prior = t ? chi + (t - 1) * K : mu;
        double leaving = 0, entering = 0, norm = 0;
        for (int k = 0; k < K; k++) {
            weight[k] = l[t * K + k] * message[k];
            entering += h[t * K + k] * weight[k];
            leaving += stop[t * K + k] * prior[k];
        }
        for (int k = 0; k < K; k++) {
            ptrdiff_t i = t * K + k;
            continues[i] = stay[i] * prior[k] * weight[k];
            switches[i] = h[i] * weight[k] * leaving;
            departs[i] = stop[i] * prior[k] * entering;
            norm += continues[i] + switches[i];
        }
        double inverse = 1 / norm;
        for (int k = 0; k < K; k++) {
            ptrdiff_t i = t * K + k;
            continues[i] *= inverse;
            switches[i] *= inverse;
            departs[i] *= inverse;
            options[i] = continues[i] + switches[i];
            message[k] = (stay[i] * weight[k] + stop[i] * entering) * inverse;
        }
    }
}

void smooth_many(ptrdiff_t steps, const double *restrict h, const double *restrict stop,
                 const double *restrict stay, const double *restrict l, const double *restrict mu,
                 double *restrict chi, double *restrict options, double *restrict switches,
                 double *restrict continues, double *restrict departs, double *restrict log_likelihood) {
    static double first[K * E], message[K * E], norms[E];
    for (int k = 0; k < K; k++)
        for (int e = 0; e < E; e++) first[k * E + e] = mu[k], message[k * E + e] = 1;
    for (int e = 0; e < E; e++) log_likelihood[e] = 0;
    const double *before = first;
    for (ptrdiff_t t = 0; t < steps; t++) {
        size_t o = (size_t)t * K * E;
        for (int e = 0; e < E; e++) {
            double leaving = 0, norm = 0, alpha[K];
            for (int k = 0; k < K; k++) leaving += stop[o + k * E + e] * before[k * E + e];
            for (int k = 0; k < K; k++) {
                size_t i = o + k * E + e;
                alpha[k] = l[i] * (stay[i] * before[k * E + e] + h[i] * leaving);
                norm += alpha[k];
            }
            for (int k = 0; k < K; k++) chi[o + k * E + e] = alpha[k] / norm;
            norms[e] = norm;
        }
        for (int e = 0; e < E; e++) log_likelihood[e] += log(norms[e]);
        before = chi + o;
    }
    for (ptrdiff_t t = steps - 1; t >= 0; t--) {
        size_t o = (size_t)t * K * E;
        const double *prior = t ? chi + o - K * E : first;
        for (int e = 0; e < E; e++) {
            double leaving = 0, entering = 0, norm = 0, weight[K], going[K], coming[K];
            for (int k = 0; k < K; k++) {
                size_t i = o + k * E + e;
                weight[k] = l[i] * message[k * E + e];
                entering += h[i] * weight[k];
                leaving += stop[i] * prior[k * E + e];
            }
            for (int k = 0; k < K; k++) {
                size_t i = o + k * E + e;
                going[k] = stay[i] * prior[k * E + e] * weight[k];
                coming[k] = h[i] * weight[k] * leaving;
                norm += going[k] + coming[k];
            }
            double inverse = 1 / norm;
            for (int k = 0; k < K; k++) {
                size_t i = o + k * E + e;
                continues[i] = going[k] * inverse;
                switches[i] = coming[k] * inverse;
                options[i] = (going[k] + coming[k]) * inverse;
                departs[i] = stop[i] * prior[k * E + e] * entering * inverse;
                message[k * E + e] = (stay[i] * weight[k] + stop[i] * entering) * inverse;
            }
        }
    }
}
