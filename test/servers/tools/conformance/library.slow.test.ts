import { afterEach, describe, expect, it } from '@jest/globals'
import { checkService, COOKIE_CHECKS, listIds } from '../../../support/servers/conformance.js'
import { closeServices } from '../../../support/servers/server-client.js'
import { testApp } from '../../../support/servers/test-app.js'

afterEach(closeServices)

// This file also runs with Express 4.
describe('the command conformance', () => {
  it('finds no fault in the library with tokens in bodies', async () => {
    const { app, clock } = await testApp()
    const report = await checkService(app, { clock })
    expect([listIds(report, 'failed'), listIds(report, 'skipped')]).toEqual([[], COOKIE_CHECKS])
    expect([report.passed, report.total]).toEqual([report.checks.length - 3, report.checks.length - 3])
  })

  it('finds no fault in the library with tokens in cookies', async () => {
    const { app, clock } = await testApp({ useCookies: true, cookiePrefix: '__Host-' })
    const report = await checkService(app, { clock })
    expect([listIds(report, 'failed'), listIds(report, 'skipped')]).toEqual([[], []])
  })
})
