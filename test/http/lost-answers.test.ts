import { describe, expect, it } from '@jest/globals'
import { rounds, sampled } from '../support/fixtures/time-factor.js'
import { runLostAnswers } from '../support/faults/lost-answers.js'

describe('a client that stores refresh token and key', () => {
  // Small version of figure F18. Cause: a lost response logged an honest user out.
  it('is never logged out by a proxy that loses every second response; second holders are detected', async () => {
    const [refreshes, plants] = [rounds(sampled(12, 60), 1_000), rounds(sampled(2, 8), 100)]
    const config = { maxRequestsPerTimeSlot: Infinity }
    const { refreshed, lost, loggedOut, planted, noticed } = await runLostAnswers({ refreshes, plants }, config)
    expect({ refreshed, loggedOut }).toEqual({ refreshed: refreshes, loggedOut: 0 })
    expect(lost).toBeGreaterThanOrEqual(refreshes)
    expect({ planted, noticed }).toEqual({ planted: plants, noticed: plants })
  })
})
