/**
 * F11: 1,000,000 requests of every kind to the three servers in one process. Compares the median memory of the first
 * and the second half of the run, after the warm-up. The memory is measured after garbage collection.
 *
 * Some minutes: `npm run figures -- soak [requests]`
 */
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { computeMedian, reportFigure } from './harness.js'
import { startBin, type Usage } from './servers.js'
import { soak } from './soak-users.js'

const MEBIBYTE = 1_048_576
const REQUESTS = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 1_000_000)
const MOST_GROWTH = 1.05
const PARTS = 40
/**
 * Number of parts in which bounded caches fill: SQLite's 64 MiB per database, files, and some 10,000 tokens per server.
 */
const WARM_UP = 16
const MIDDLE = (PARTS + WARM_UP) / 2

const folder = temporaryFolder()
const env = {
  DATA_DIR: folder.path,
  AUTH_PORT: '0',
  RELAY_PORT: '0',
  VAULT_PORT: '0',
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
  RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
  RELAY_MAX_MEMORY_BYTES: String(32 * MEBIBYTE)
}
const bin = await startBin('all', env, ['--expose-gc'])
const usages: Usage[] = []
const startedAt = performance.now()
const wrongAnswers = await soak(bin.servers, REQUESTS, {
  parts: PARTS,
  onPart: async () => void usages.push(await bin.usage())
})
const rate = (REQUESTS * 1_000) / (performance.now() - startedAt)
await bin.stop()
folder.remove()

const computeGrowth = (name: 'rss' | 'used'): number => {
  const computeMedianOf = (from: number, to: number): number =>
    computeMedian(usages.slice(from, to).map((usage) => usage[name]))
  return computeMedianOf(MIDDLE, PARTS) / computeMedianOf(WARM_UP, MIDDLE)
}
const growths = (['used', 'rss'] as const).map((name) => {
  const every4th = usages.filter((_, part) => part % 4 === 3).map((usage) => (usage[name] / MEBIBYTE).toFixed(0))
  return `${name} ${computeGrowth(name).toFixed(3)} × (${every4th.join(' ')} MiB)`
})
const answers = `${wrongAnswers.length} wrong answers${wrongAnswers.length > 0 ? `, the first: ${wrongAnswers[0]}` : ''}`
reportFigure(
  'F11',
  `all servers: ${REQUESTS} mixed requests at ${rate.toFixed(0)}/s, ${answers}; ${growths.join(', ')}`,
  wrongAnswers.length === 0 && computeGrowth('used') <= MOST_GROWTH && computeGrowth('rss') <= MOST_GROWTH
)
