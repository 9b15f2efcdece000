import { describe, type Exchange, type ServiceUnderTest } from './service.js'

/** One rule of the protocol, asked from outside. */
export interface Check {
  /** Stable: a script may look for it. */
  id: string
  /** What holds when it passes, in one sentence. */
  rule: string
  /** @throws when the rule is broken */
  run: (service: ServiceUnderTest) => Promise<void>
}

/** A check, given as its id, its rule, and what asks the service. */
export function check(id: string, rule: string, run: Check['run']): Check {
  return { id, rule, run }
}

/** A rule that says nothing about this service, such as one about cookies. It is not counted. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable'
}

/** @throws Error with what was received */
export function assertThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}

/** @param what - what was sent, for the reader of a failure */
export function assertStatus(exchange: Exchange, expected: number, what: string): void {
  assertThat(exchange.status === expected, `${what}: ${describe(exchange)} instead of ${expected}`)
}

/** Asserts that an answer is one kind of JSON object. */
export function assertJson(exchange: Exchange, fields: readonly string[]): void {
  assertStatus(exchange, 200, 'a good request')
  for (const field of fields) {
    const value = exchange.json[field]
    assertThat(typeof value === 'string' && value !== '', `${describe(exchange)} without a text "${field}" in JSON`)
  }
}

/** Whether the answers may not be kept by a cache. */
export function assertNotStored(exchange: Exchange): void {
  const control = exchange.headers.get('cache-control') ?? ''
  assertThat(/\bno-store\b/i.test(control), `${describe(exchange)} with Cache-Control "${control}"`)
}
