import { describe, expect, it } from '@jest/globals'
import { useInterleavings, type StartState, type VerbName } from '../../support/models/interleavings.js'

const use = useInterleavings()

const writers = ['adds the content', 'posts a file'] as const
const owners = ['adds it to an empty list', 'replaces the entry', 'removes the entry'] as const
const cleaners = ['takes it down', 'collects garbage', 'repairs it'] as const

/** Verbs of which each pair runs, by the state in which they start. */
const verbsByState: readonly (readonly [StartState, readonly VerbName[]])[] = [
  ['in an entry', [...writers, ...owners, ...cleaners]],
  ['unused', [...writers, ...cleaners, 'adds it beyond the quota']],
  ['absent', [...writers, 'adds it to an empty list', 'takes it down']],
  ['in an expired file', [...writers, 'deletes expired files', 'takes it down']],
  ['lost', ['adds the content', 'takes it down', 'repairs it']],
  ['without its pin', ['adds the content', 'removes the entry', 'takes it down', 'corrects pins']],
  ['only a pin', [...writers, 'takes it down', 'corrects pins']],
  ['in a damaged list', ['removes the entry', 'takes it down', 'corrects lists']]
]
// Two repairs of lost content may leave an unused object, which `vault reconcile` finds.
const listSizes = (state: StartState): string[] => (state === 'lost' ? ['small'] : ['small', 'large'])
const cases = verbsByState.flatMap(([state, names]) =>
  names.flatMap((first) => names.flatMap((second) => listSizes(state).map((size) => ({ state, size, first, second }))))
)

describe('two transactions on one content in PostgreSQL', () => {
  it.each(cases)('$size, $state: one $first while another $second', async ({ state, size, first, second }) => {
    expect(await use().interleavings.findFaults(state, size === 'large', first, second)).toEqual([])
  })
})
