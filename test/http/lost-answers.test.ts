import { describe, expect, it } from '@jest/globals'
import { runLostAnswers } from '../support/lost-answers.js'

describe('a client that keeps refresh token and key', () => {
  // Figure F18, small. Cause: an answer that was lost on its way logged an honest user out.
  it('is never logged out by a proxy that loses every second answer, and each second holder is noticed', async () => {
    const { refreshed, lost, loggedOut, planted, noticed } = await runLostAnswers({ refreshes: 60, plants: 8 })
    expect({ refreshed, loggedOut }).toEqual({ refreshed: 60, loggedOut: 0 })
    expect(lost).toBeGreaterThanOrEqual(60)
    expect({ planted, noticed }).toEqual({ planted: 8, noticed: 8 })
  })
})
