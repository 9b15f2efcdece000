/**
 * `npm run plan -- --users 1e9`: what a number of users needs, by a model of what they do and by measured costs. Every
 * assumption is printed, and is an option. `npm run plan -- measure` and `npm run plan -- validate` bring what is measured
 * up to date.
 */
import { parseArgs } from 'node:util'
import { capacityOf, type Capacity } from './capacity.js'
import { simulateCell } from './simulated-cell.js'
import { distrust, readUnitCosts, readValidation, type UnitCosts } from './unit-costs.js'
import { assumptions, requestNames, workloadOf, type Workload } from './workload.js'

/** What one machine can show. More users are shown only where the simulation was validated. */
const MOST_UNVALIDATED_USERS = 1e6
const USERS_SHOWN = [1e6, 1e8, 1e9]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(Object.keys(assumptions).map((name) => [name, { type: 'string' as const }]))
})

const [command] = positionals
if (command === 'measure') {
  await (await import('./measure.js')).measure()
} else if (command === 'validate') {
  process.exitCode = (await (await import('./validate.js')).validate()) ? 0 : 1
} else if (command === undefined) {
  process.exitCode = plan(workloadOf(values)) ? 0 : 1
} else {
  throw new RangeError(`${command} is none of measure, validate`)
}

/** @returns false where it refuses what was asked */
function plan(workload: Workload): boolean {
  const costs = readUnitCosts()
  const validation = readValidation()
  const reason = distrust(validation, costs)
  printAssumptions(workload)
  printCosts(costs)
  const isShown = (users: number): boolean => users <= MOST_UNVALIDATED_USERS || reason === undefined
  const shown = [...new Set([workload.users, ...USERS_SHOWN])].filter(isShown)
  printCapacities(shown.map((users) => ({ ...workload, users })))
  if (validation !== undefined && reason === undefined) {
    const error = (validation.largestError * 100).toFixed(0)
    console.log(
      `Validated on ${validation.validatedAt.slice(0, 10)}: utilisation of 1, 2, 4 instances within ${error} %`
    )
  }
  if (isShown(workload.users)) return true
  console.error(`No numbers above ${MOST_UNVALIDATED_USERS} users: ${String(reason)}`)
  return false

  function printCapacities(workloads: readonly Workload[]): void {
    const columns = workloads.map((one) => rowsOf(capacityOf(one, costs), costs, one))
    const rows = Object.keys(columns[0] ?? {}).map((name) => [name, ...columns.map((column) => column[name] ?? '')])
    printTable('At peak', [['users', ...workloads.map(({ users }) => round(users))], ...rows])
  }
}

function printAssumptions(workload: Workload): void {
  const rows = Object.entries(assumptions).map(([name, [, unit, source, meaning]]) => {
    const value = workload[name as keyof Workload]
    return [`--${name}`, String(value), unit, values[name] === undefined ? source : 'given', meaning]
  })
  printTable('Assumptions', rows)
}

function printCosts({ machine, measuredAt, requests, firstSeenMicroseconds, wake, bytesPerSession }: UnitCosts): void {
  const rows = requestNames.map((name) => {
    const { nodeMicroseconds, postgresMicroseconds, walBytes, trips } = requests[name]
    return [name, ...[nodeMicroseconds, postgresMicroseconds, walBytes, trips].map(round)]
  })
  const header = ['request', 'Node µs', 'PostgreSQL µs', 'WAL B', 'round trips']
  printTable(`Unit costs, measured on ${measuredAt.slice(0, 10)}: ${machine}`, [header, ...rows])
  const firstSeen = `A token that an instance has not verified yet: ${round(firstSeenMicroseconds)} µs more`
  const woken = `Work that finds a process idle: ${round(wake.nodeMicroseconds)} µs more of Node, ${round(wake.postgresMicroseconds)} µs of PostgreSQL`
  console.log(`${firstSeen}. ${woken}. A session on disk: ${round(bytesPerSession)} B.`)
}

function rowsOf(capacity: Capacity, costs: UnitCosts, workload: Workload): Record<string, string> {
  const { rates, sessions, quotas, vault } = capacity
  const cell = simulateCell(capacity, costs, workload)
  const milliseconds = (seconds: number): string => (seconds * 1000).toFixed(1)
  return {
    'guarded / refresh / login a second': [rates.guarded, rates.refresh, rates.login].map(round).join(' / '),
    'auth: Node cores busy': round(capacity.nodeCores),
    'auth: instances of one core': round(capacity.instances),
    'auth: tokens new to their instance': `${round(capacity.firstSeenShare * 100)} %`,
    'sessions: PostgreSQL cores': round(sessions.cores),
    'sessions: disk GB': round(sessions.gigabytes),
    'sessions: WAL MB/s, warm – cold': `${round(sessions.warmWal)} – ${round(sessions.coldWal)}`,
    'quotas: a second': round(quotas.perSecond),
    'quotas: PostgreSQL cores / Redis primaries': `${round(quotas.coresInPostgres)} / ${quotas.redisPrimaries}`,
    'auth: cells (primaries, each with standbys)': String(capacity.authPrimaries),
    'auth: connections to a primary': String(capacity.connections),
    'vault: reads / writes a second': `${round(rates.vaultRead)} / ${round(rates.vaultWrite)}`,
    'vault: instances / PostgreSQL cores': `${vault.instances} / ${round(vault.cores)}`,
    'vault: WAL MB/s': round(vault.wal),
    'vault: index GB': round(vault.indexGigabytes),
    'vault: content GB': `${round(vault.contentGigabytes)} in ${vault.contentIn}`,
    'vault: cells (primaries, each with standbys)': String(capacity.vaultPrimaries),
    'simulated auth cell: instance busy': `${round(cell.instanceUtilisation * 100)} %`,
    'simulated auth cell: PostgreSQL / Redis cores busy': `${round(cell.databaseCores)} / ${round(cell.redisCores)}`,
    'simulated auth cell: answer p50 / p99 ms': `${milliseconds(cell.latencyP50)} / ${milliseconds(cell.latencyP99)}`,
    'simulated auth cell: refused of asked': `${cell.refused} of ${cell.refused + cell.served}`
  }
}

function printTable(title: string, rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  console.log(`\n${title}`)
  for (const row of rows)
    console.log(
      row
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()
    )
}

/** Two digits: there are no more in the assumptions. */
function round(value: number): string {
  if (value === 0 || value >= 100) return Number(value.toPrecision(2)).toLocaleString('en')
  return String(Number(value.toPrecision(2)))
}
