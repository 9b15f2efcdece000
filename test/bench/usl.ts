/**
 * Fits the Universal Scalability Law, X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), with λ = X(1), by least squares.
 *
 * @param throughputs - throughput by the number of instances, including that of one instance
 * @returns σ: the share of serialized work; κ: the cost of coordination between instances. Neither is negative.
 * @see Gunther, "Guerrilla Capacity Planning", 2007
 */
export function fitScalability(throughputs: ReadonlyMap<number, number>): { sigma: number; kappa: number } {
  const single = throughputs.get(1)
  if (single === undefined) throw new RangeError('the throughput of one instance is missing')
  // N / C(N) − 1 = σ(N − 1) + κN(N − 1)
  const points = [...throughputs].map(([n, x]) => ({ a: n - 1, b: n * (n - 1), y: (n * single) / x - 1 }))
  const sum = (read: (point: (typeof points)[number]) => number): number =>
    points.reduce((total, point) => total + read(point), 0)
  const [aa, ab, bb] = [sum(({ a }) => a * a), sum(({ a, b }) => a * b), sum(({ b }) => b * b)]
  const [ay, by] = [sum(({ a, y }) => a * y), sum(({ b, y }) => b * y)]
  const determinant = aa * bb - ab * ab
  const [sigma, kappa] = [(ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant]
  if (kappa < 0) return { sigma: Math.max(0, ay / aa), kappa: 0 }
  if (sigma < 0) return { sigma: 0, kappa: Math.max(0, by / bb) }
  return { sigma, kappa }
}
