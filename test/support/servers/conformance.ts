import type { RequestListener } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { checkConformance, type ConformanceReport } from '../../../servers/tools/conformance/command.js'
import { serving } from './server-client.js'
import { type TestClock } from '../fixtures/fixtures.js'

/** Ids of the checks that need tokens in cookies. */
export const COOKIE_CHECKS = ['cookie-attributes', 'cookie-cross-origin', 'cookie-logout']

/** Clock of the service, the path below which its routes are, and options of the check. */
interface ServiceOptions {
  clock?: TestClock
  path?: string
  protectedPath?: string
  domain?: string
}

/**
 * Checks the conformance of a server. If its clock is given, the check advances it instead of waiting for expirations.
 */
export async function checkService(
  listener: RequestListener,
  { clock, path = '', ...options }: ServiceOptions = {}
): Promise<ConformanceReport> {
  const wait = async (seconds: number): Promise<void> => {
    if (clock === undefined) await pause(seconds * 1_000)
    else clock.seconds += seconds
  }
  const url = new URL(`${await serving(listener)}${path}`)
  const maxWaitSeconds = clock === undefined ? 0 : 600
  return checkConformance({ url, protectedPath: '/me', maxWaitSeconds, wait, ...options })
}

/** Returns the ids of the checks with an outcome. */
export const listIds = ({ checks }: ConformanceReport, outcome: string): string[] =>
  checks.filter((check) => check.outcome === outcome).map(({ id }) => id)
