import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { RequestName } from './workload.js'

/** What one request takes under load, when its work follows other work at once. */
export interface RequestCost {
  /** CPU of the instance. */
  nodeMicroseconds: number
  /** CPU of all processes of PostgreSQL. */
  postgresMicroseconds: number
  walBytes: number
  /** Round trips to the database. */
  trips: number
}

/** What `npm run plan -- measure` found. */
export interface UnitCosts {
  measuredAt: string
  machine: string
  requests: Record<RequestName, RequestCost>
  /** CPU of an instance, besides, for an access token that it has not verified before. */
  firstSeenMicroseconds: number
  /** CPU, besides, of each piece of work that finds its process idle: the costs at a low rate against those under load. */
  wake: { nodeMicroseconds: number; postgresMicroseconds: number }
  /** Shares of one core that are busy when nothing is asked: of an instance, and of PostgreSQL. */
  idle: { node: number; postgres: number }
  bytesPerSession: number
  /** How long a statement takes over its mean: 20 quantiles of equal weight. */
  serviceShape: readonly number[]
}

/** Where the simulation and reality were compared. */
export interface Validation {
  /** Of the unit costs that the simulation had. */
  costsMeasuredAt: string
  validatedAt: string
  machine: string
  /** The largest error of a utilisation, as a share of the measured one. */
  largestError: number
  runs: readonly ValidationRun[]
}

export interface ValidationRun {
  instances: number
  perSecond: number
  node: { measured: number; predicted: number }
  postgres: { measured: number; predicted: number }
}

/** A prediction may be off by this share. */
export const MOST_ERROR = 0.25

const fileOf = (name: string): URL => new URL(`${name}.json`, import.meta.url)

export function readUnitCosts(): UnitCosts {
  return JSON.parse(readFileSync(fileOf('unit-costs'), 'utf8')) as UnitCosts
}

export function readValidation(): Validation | undefined {
  const file = fileOf('validation')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Validation) : undefined
}

export function writeResult(name: 'unit-costs' | 'validation', result: UnitCosts | Validation): void {
  // More digits would be noise.
  const rounded = (_: string, value: unknown): unknown =>
    typeof value === 'number' ? Number(value.toPrecision(4)) : value
  writeFileSync(fileOf(name), `${JSON.stringify(result, rounded, 2)}\n`)
}

/** Why numbers beyond what one machine shows are not to be trusted; undefined where they are. */
export function distrust(validation: Validation | undefined, costs: UnitCosts): string | undefined {
  if (validation === undefined) return 'the simulation was not validated: npm run plan -- validate'
  if (validation.costsMeasuredAt !== costs.measuredAt) {
    return 'the validation is of other unit costs: npm run plan -- validate'
  }
  if (validation.largestError <= MOST_ERROR) return undefined
  return `the validation is off by ${(validation.largestError * 100).toFixed(0)} %, and ${MOST_ERROR * 100} % is the most`
}
