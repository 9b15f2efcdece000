import { describe, expect, it } from '@jest/globals'
import { killBetweenCommitAndAnswer } from '../support/killed-refreshes.js'

describe('a refresh on SQLite whose process is killed between commit and answer', () => {
  // Figure F18, small. Cause: the token was replaced, its successor lost, and the repeat took the owner for a thief.
  it('is repeated at the next process and answered, with no one logged out', async () => {
    expect(await killBetweenCommitAndAnswer(3)).toEqual({ rounds: 3, killed: 3, repeated: 3, loggedOut: 0 })
  })
})
