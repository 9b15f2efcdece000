import Sequencer from '@jest/test-sequencer'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

/** Test files that take longest in `npm run test:slow` and in `npm test`, in the order of their start. */
const LONGEST = [
  'slow/packed/servers.slow',
  'servers/page/page-login.browser.slow',
  'slow/packed/library.slow',
  'docs/recipes.slow',
  'servers/cli.slow',
  'servers/page/page.browser.slow',
  'docs/site.browser.slow',
  'servers/content/s3-object-store.swift.slow',
  'docs/code-types.slow',
  'servers/content/interleavings.slow',
  'servers/content/content-races.slow',
  'servers/content/content-crashes.slow',
  'stores/redis-outage.redis-faults.slow',
  'stores/postgres-faults.slow',
  'contracts/content-store',
  'contracts/store'
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
