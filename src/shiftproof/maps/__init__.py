"""Operations on maps that move pixels: shifts, padding, the polyphase split."""
