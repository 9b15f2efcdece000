import Sequencer from '@jest/test-sequencer'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

/** Test files that take at least 10 s, the longest first. */
const LONGEST = [
  'servers/content/content-races.slow',
  'contracts/content-store',
  'stores/postgres-faults',
  'contracts/store',
  'servers/content/content-races',
  'servers/content/content-crashes',
  'docs/code',
  'stores/redis-outage.redis-faults',
  'servers/tools/conformance/command'
].map((file) => join(rootDir, 'test', `${file}.test.ts`))

const missing = LONGEST.filter((file) => !existsSync(file))
if (missing.length > 0) throw new Error(`.config/longest-first.js names files that do not exist: ${missing.join(', ')}`)

/**
 * Jest's order of test files, except that the longest ones start first. If one of them started last, the other workers
 * would wait for its end. Jest knows their times only after a run in the same folder, and CI tests a new clone.
 */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const rank = ({ path }) => (LONGEST.includes(path) ? LONGEST.indexOf(path) : LONGEST.length)
    return super.sort(tests).sort((one, other) => rank(one) - rank(other))
  }
}
