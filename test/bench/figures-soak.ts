/**
 * F11: 1,000,000 requests of every kind at the three servers in one process. One line; when it misses its goal, that sets
 * the exit code.
 *
 * Some minutes: `npm run figures -- soak [requests]`
 */
import { temporaryFolder } from '../support/store-folder.js'
import { startBin, type Takings } from './built-bin.js'
import { median } from './median.js'
import { reportFigure } from './report-figure.js'
import { soak } from './soak.js'

const MEBIBYTE = 1_048_576
const MOST_GROWTH = 1.05
const PARTS = 40
/** Parts in which bounded caches fill: SQLite's of 64 MiB a database, files, and some 10,000 tokens a server. */
const WARM_UP = 16

/** Memory after a collection of garbage: its median in the second half of what follows the warm-up, over that in the first. */
export async function soakFigure(requests: number): Promise<void> {
  const folder = temporaryFolder()
  const bin = await startBin(
    'all',
    {
      DATA_DIR: folder.path,
      AUTH_PORT: '0',
      RELAY_PORT: '0',
      VAULT_PORT: '0',
      ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
      RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
      RELAY_MAX_MEMORY_BYTES: String(32 * MEBIBYTE)
    },
    ['--expose-gc']
  )
  const taken: Takings[] = []
  const startedAt = performance.now()
  const wrong = await soak(bin.servers, requests, {
    parts: PARTS,
    onPart: async () => {
      taken.push(await bin.takings())
    }
  })
  const seconds = (performance.now() - startedAt) / 1_000
  await bin.stop()
  folder.remove()

  const middle = (PARTS + WARM_UP) / 2
  const growthOf = (name: 'rss' | 'used'): number => {
    const of = (from: number, to: number): number => median(taken.slice(from, to).map((one) => one[name]))
    return of(middle, PARTS) / of(WARM_UP, middle)
  }
  const listOf = (name: 'rss' | 'used'): string =>
    taken
      .filter((_, part) => part % 4 === 3)
      .map((one) => (one[name] / MEBIBYTE).toFixed(0))
      .join(' ')
  const [used, rss] = [growthOf('used'), growthOf('rss')]
  const isGood = wrong.length === 0 && used <= MOST_GROWTH && rss <= MOST_GROWTH
  const rate = (requests / seconds).toFixed(0)
  reportFigure(
    'F11',
    `all servers: ${requests} mixed requests at ${rate}/s, ${wrong.length} wrong answers${wrong.length > 0 ? `, the first: ${wrong[0]}` : ''}; ` +
      `used ${used.toFixed(3)} × (${listOf('used')} MiB), RSS ${rss.toFixed(3)} × (${listOf('rss')} MiB)`,
    isGood
  )
}

if (process.argv[1]?.endsWith('figures-soak.ts') === true) await soakFigure(Number(process.argv[2] ?? 1_000_000))
