import { expect, it } from '@jest/globals'
import { SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readDocument, root } from '../support/fixtures/documents.js'
import { breakableStore, testApp } from '../support/servers/test-app.js'

it('the recipe for OpenTelemetry makes spans of a login and a guarded request, with their store calls', async () => {
  const [recipe] = readDocument('src/guides/OPENTELEMETRY.md').blocks
  // Below this folder, so that the recipe finds the packages of this test.
  const folder = join(root, 'test/slow/.cache')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'spans.mjs'), recipe!.code)
  const exporter = new InMemorySpanExporter()
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  await import(join(folder, 'spans.mjs'))

  const { store, state } = breakableStore('chargeQuota')
  const { logIn, me, requireDid } = await testApp({ store })
  // The start of the service has pinged the store.
  await requireDid.ready
  exporter.reset()
  const { accessToken } = await logIn()
  await me(accessToken).expect(200)
  state.isBroken = true
  await me(accessToken).expect(503)

  const spans = exporter.getFinishedSpans()
  const nameOf = (spanId: string | undefined) => spans.find((span) => span.spanContext().spanId === spanId)?.name
  const seen = spans.map(({ name, parentSpanContext, status }) =>
    [nameOf(parentSpanContext?.spanId), name, status.code === SpanStatusCode.ERROR ? status.message : undefined]
      .filter((part) => part !== undefined)
      .join(' > ')
  )
  const logins = 'did-auth login login'
  expect(seen).toEqual([
    'did-auth store chargeQuota',
    'did-auth store countChallengeUses',
    `${logins} > did-auth store countChallengeUses`,
    `${logins} > did-auth store chargeQuota`,
    `${logins} > did-auth store consumeChallenge`,
    `${logins} > did-auth store createSession`,
    logins,
    'did-auth guard > did-auth store chargeQuota',
    'did-auth guard',
    'did-auth guard > did-auth store chargeQuota > ERR_STORE',
    'did-auth guard > ERR_STORE'
  ])
})
