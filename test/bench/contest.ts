import type { BenchServer } from './variants.js'
import { Connection } from './http-client.js'
import { median } from './median.js'
import { printFigure } from './report-figure.js'

/** How many rounds count; one more is to warm up. */
export const ROUNDS = 5

/** What one client asks of a server, once. */
export type Step = (connection: Connection, worker: number, index: number) => Promise<void>

/** Runs `total` steps over so many connections and answers the server's CPU time per step in microseconds. */
export async function costOf(server: BenchServer, total: number, step: Step, clients = 16): Promise<number> {
  const connections = await Promise.all(Array.from({ length: clients }, () => Connection.open(server.port)))
  const before = await server.cpuMicroseconds()
  let next = 0
  await Promise.all(
    connections.map(async (connection, worker) => {
      while (next < total) await step(connection, worker, next++)
    })
  )
  const after = await server.cpuMicroseconds()
  for (const connection of connections) connection.close()
  return (after - before) / total
}

export function assertStatus(answer: { status: number; body: string }, status = 200): void {
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.body}`)
}

/** Two servers, or two routes of one, that do the same work. */
export interface Contest {
  name: string
  goal: string
  /** Both answer the CPU time of one piece of work, in microseconds. */
  bare: () => Promise<number>
  ours: () => Promise<number>
}

/** Whether a figure is asked for on the command line, where there may be the begin of one name. */
export function isFigureChosen(name: string): boolean {
  const [, , , figure] = process.argv
  return figure === undefined || name.startsWith(figure)
}

/** Alternates the two and prints the medians: cost of both, and the ratio bare / ours. */
export async function compare({ name, goal, bare, ours }: Contest): Promise<void> {
  if (!isFigureChosen(name)) return
  const bareCosts: number[] = []
  const ourCosts: number[] = []
  const ratios: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const bareCost = await bare()
    const ourCost = await ours()
    if (round === 0) continue // warm-up
    bareCosts.push(bareCost)
    ourCosts.push(ourCost)
    ratios.push(bareCost / ourCost)
  }
  const figures = `${median(bareCosts).toFixed(1)} / ${median(ourCosts).toFixed(1)} µs CPU`
  printFigure(`${name.padEnd(58)} ${median(ratios).toFixed(2).padStart(5)}  (goal ${goal}; bare / ours ${figures})`)
}
