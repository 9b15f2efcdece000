import { describe, expect, it } from '@jest/globals'
import { rounds } from '../support/fixtures/time-factor.js'
import { killBetweenCommitAndAnswer } from '../support/faults/lost-answers.js'

describe('a refresh on SQLite whose process is killed between commit and response', () => {
  // Small version of figure F18. Cause: the token was replaced and the new one was lost, so that the retry looked like
  // a theft.
  it('succeeds when repeated at the next process, and no one is logged out', async () => {
    const times = rounds(3, 200)
    const expected = { rounds: times, killed: times, repeated: times, loggedOut: 0 }
    expect(await killBetweenCommitAndAnswer(times)).toEqual(expected)
  })
})
