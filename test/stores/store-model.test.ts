import { describe, it } from '@jest/globals'
import { memoryStore } from '../../src/stores/memory/index.js'
import { assertLikeModel } from '../support/store-comparison.js'

describe('the memory store', () => {
  it('does what a model without any cleverness does, whatever the sequence', async () => {
    await assertLikeModel(() => memoryStore(), 100)
  })
})
